"""tau2, run and scored by its official package in an environment and processes of its own; ``harness`` is what others call."""
