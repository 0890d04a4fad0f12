"""Every way a run can fail, and who is told.

* ``SlcaError``: the user can mend it. The command line prints its one sentence and exits with 2; nothing
  is left half-written. Its kinds name what has to be mended: ``ParamsError`` (params.yaml), ``ToolError`` (a tool
  definition), ``DataError`` (a file or table), ``MissingDependency`` (something that is not installed).
* ``RunStopped``: a run that watched itself and stopped (too many unscorable rollouts, a collapsed policy). Exit 3:
  the numbers that led to it are in its sentence and in the run's CSV.
* What a *policy* does wrong (a malformed call, an unknown tool, wrong arguments) is never an exception: it is a typed
  error result that the policy reads and HierR scores (``slca.records.Attempt.error``).
* A simulator or judge that fails is no exception to the run either: the rollout is marked, masked and counted.
* Anything else is a defect in this package, and keeps its traceback.
"""


class SlcaError(Exception):
    """Bad input that its user can mend: one sentence with file, field, value and the way to mend it."""

    exit_code = 2


class ParamsError(SlcaError):
    """A parameter is unknown, ill-typed or contradicts another."""


class ToolError(SlcaError):
    """A tool definition cannot be used: bad name, invalid JSON Schema, duplicated name, unknown behaviour."""


class DataError(SlcaError):
    """A file or table is missing, truncated, or breaks its contract."""


class MissingDependency(SlcaError):
    """A program, package or environment that this command needs is not there."""


class RunStopped(SlcaError):
    """A run stopped itself because going on would teach or report nonsense."""

    exit_code = 3
