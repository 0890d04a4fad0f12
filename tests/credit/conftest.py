"""Makes ``credit_cases`` importable (``--import-mode=importlib`` leaves sys.path alone) and properties repeatable."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.append(str(Path(__file__).parent))

settings.register_profile("repeatable", deadline=None, derandomize=True)  # no failure from a busy machine
settings.load_profile("repeatable")
