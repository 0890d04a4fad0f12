"""Segment-locked credit assignment for tool-calling RL (SLCA-GRPO, arXiv 2609.29050)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slca.training.trainer import SegmentLockedGRPOTrainer

__all__ = ["SegmentLockedGRPOTrainer"]


def __getattr__(name: str) -> Any:
    """The trainer is imported when it is asked for: it needs torch and TRL, which nothing else here should wait for."""
    if name == "SegmentLockedGRPOTrainer":
        from slca.training.trainer import SegmentLockedGRPOTrainer

        return SegmentLockedGRPOTrainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
