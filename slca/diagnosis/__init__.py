"""Looking at the credit of recorded rollouts, ours or another stack's: ``slca diagnose`` and ``slca inspect``."""
