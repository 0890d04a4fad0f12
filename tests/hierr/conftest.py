"""Lets the tests of this folder import their builders by name (pytest's importlib mode does not put the folder on the path)."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
