"""What a throwaway prototype showed (method section 7): another setting, to be confirmed or refuted by the experiment.

A 0.6 M-parameter Llama, one call with four arguments and a one-line summary, warm start at success 0.32, 8 tasks x 8 rollouts a
step, plain policy gradient, 60 steps, 6 seeds. Success on 256 held-out tasks: mean and standard deviation over seeds.
"""

STEPS = 60

SUCCESS: dict[float, dict[str, tuple[float, float]]] = {
    0.0: {"grpo": (0.846, 0.031), "gdpo": (0.859, 0.023), "routed_joint": (0.879, 0.025), "slca": (0.899, 0.011)},
    0.5: {"grpo": (0.736, 0.029), "gdpo": (0.859, 0.027), "routed_joint": (0.814, 0.049), "slca": (0.878, 0.017)},
    1.0: {"grpo": (0.621, 0.024), "gdpo": (0.871, 0.018), "routed_joint": (0.770, 0.012), "slca": (0.878, 0.019)},
}
"""Judge noise -> method -> (mean, deviation)."""

REACHED: dict[float, int] = {0.0: 43, 0.5: 21, 1.0: 13}
"""Judge noise -> the step, of 60, after which slca had passed the success at which grpo ended (approximate)."""


def effects(noise: float) -> dict[str, float]:
    """slca minus grpo, and the main effects of separate normalisation and of routing, in mean success."""
    grpo, gdpo, routed_joint, slca = (SUCCESS[noise][name][0] for name in ("grpo", "gdpo", "routed_joint", "slca"))
    return {
        "margin": slca - grpo,
        "normalisation": ((gdpo - grpo) + (slca - routed_joint)) / 2,
        "routing": ((routed_joint - grpo) + (slca - gdpo)) / 2,
    }
