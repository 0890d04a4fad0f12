"""How a valid call that cannot be carried out ends."""

from slca.records import CallError


class Refusal(Exception):
    """A valid call that cannot be carried out; the policy reads its kind and message."""

    def __init__(self, error: CallError, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
