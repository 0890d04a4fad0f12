"""BFCL, scored by its official package in an environment and a process of its own; ``harness`` is what others call."""
