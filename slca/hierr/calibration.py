"""What the rewards of many rollouts look like: the numbers to read before training on them.

Everything is a scalar in a flat mapping, so that DVC can track it. Means, deviations, quartiles and successes run over scored
rollouts; masked ones are counted apart. Shares are 0 to 1. ``success_strict`` and ``success_paper`` are success under both
variants of HierR, whichever was selected. Zero variance, presence and contamination: ``slca.credit``.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from slca.credit import METHODS, Groups, Settings, contamination_of, signal
from slca.hierr.process import Variant
from slca.records import FinishReason, Reward, TaskKind

COMPONENTS = ("format", "name", "key", "value", "parallel", "process", "outcome", "tool_score", "summary_score", "redundancy")
COUNTS = ("calls", "repeats", "tool_turns", "sampled_tokens")


def calibration(
    rewards: Sequence[Reward], groups: Groups, settings: Settings, success: Mapping[Variant, Sequence[bool]]
) -> dict[str, float]:
    """The metrics of ``rewards`` (one at least is scored), whose rows ``groups`` has.

    success: under each variant, of the scored rollouts. Kinds and finish reasons that do not occur have no entry.
    """
    scored = [reward for reward in rewards if not reward.masked]
    metrics: dict[str, float] = {
        "rollouts": len(rewards),
        "scored": len(scored),
        "groups": len({reward.task_id for reward in rewards}),
        "success": _mean([reward.success for reward in scored]),
        **{f"success_{variant}": _mean(values) for variant, values in success.items()},
        "outcome_success": _mean([reward.outcome == 1.0 for reward in scored]),
    }
    for name in (*COMPONENTS, *COUNTS):
        metrics[f"{name}_mean"], metrics[f"{name}_sd"] = mean_sd([getattr(reward, name) for reward in scored])
    for name in ("tool_score", "summary_score"):
        quartiles = np.percentile([getattr(reward, name) for reward in scored], (25, 50, 75))
        metrics |= {f"{name}_q{percent}": float(value) for percent, value in zip((25, 50, 75), quartiles, strict=True)}
    for kind in TaskKind:
        of_kind = [reward.success for reward in scored if reward.kind is kind]
        if of_kind:
            metrics |= {f"scored_{kind}": len(of_kind), f"success_{kind}": _mean(of_kind)}
    for reason in FinishReason:
        ended = _mean([reward.finish_reason is reason for reward in rewards])
        if ended:
            metrics[f"finish_{reason}"] = ended
    metrics |= {("masked_share" if name == "masked" else name): share for name, share in signal(groups, settings).items()}
    for method in METHODS:
        shares = contamination_of(method, groups, settings)
        metrics |= {f"contamination_{method}_{segment}": share for segment, share in shares.items()}
    return {name: value if isinstance(value, int) else round(value, 6) for name, value in metrics.items()}


def components_csv(rewards: Sequence[Reward]) -> str:
    """A tidy table: kind, component, mean, sd and n, over the scored rollouts."""
    lines = ["kind,component,mean,sd,n"]
    for kind in TaskKind:
        scored = [reward for reward in rewards if reward.kind is kind and not reward.masked]
        for name in COMPONENTS if scored else ():
            mean, sd = mean_sd([getattr(reward, name) for reward in scored])
            lines.append(f"{kind},{name},{mean:.6f},{sd:.6f},{len(scored)}")
    return "\n".join(lines) + "\n"


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    """Mean and unbiased standard deviation (0 for a single value)."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _mean(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags)
