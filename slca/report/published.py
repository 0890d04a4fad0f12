"""The published results that stand beside ours for orientation (method section 6; arXiv 2609.29050).

Another model (Qwen2.5-7B-Instruct, three runs), other data, a 235B simulator and a 120B judge: no number here is to be reached
by this pipeline's default profile. Percent throughout. None: not published.
"""

MODEL = "Qwen2.5-7B-Instruct, three runs"
SOURCE = "arXiv 2609.29050"

COLUMNS = {"success": "success@0.9", "bfcl_v3": "BFCL-v3", "tau2": "tau2 pass^1"}

PUBLISHED: dict[str, dict[str, float | None]] = {
    "grpo": {"success": 76.60, "bfcl_v3": 68.41, "tau2": 31.87},
    "slca": {"success": 79.13, "bfcl_v3": 69.77, "tau2": 41.02},
    "slca without SGLS": {"success": 78.02, "bfcl_v3": 68.75, "tau2": 36.19},
    "slca without HierR": {"success": 73.44, "bfcl_v3": 69.07, "tau2": 34.50},
    "toolpo (rule)": {"success": 77.35, "bfcl_v3": 68.86, "tau2": 34.18},
    "toolpo (judge)": {"success": 20.00, "bfcl_v3": 24.59, "tau2": 30.44},
    "rltr": {"success": None, "bfcl_v3": None, "tau2": 33.72},
    "grpo, outcome reward": {"success": 73.51, "bfcl_v3": 66.28, "tau2": 25.54},
    "slca, outcome reward": {"success": 76.43, "bfcl_v3": 67.61, "tau2": 30.18},
}

MAIN, ABLATIONS, REWARDS = "main", "ablations", "rewards"

TABLES: dict[str, dict[str, str]] = {
    MAIN: {name: name for name in ("grpo", "toolpo (rule)", "toolpo (judge)", "rltr", "slca")},
    ABLATIONS: {
        "slca": "slca",
        "without SLCA (grpo)": "grpo",
        "without SGLS": "slca without SGLS",
        "without HierR": "slca without HierR",
    },
    REWARDS: {
        "grpo, process reward": "grpo",
        "slca, process reward": "slca",
        "grpo, outcome reward": "grpo, outcome reward",
        "slca, outcome reward": "slca, outcome reward",
    },
}
"""The paper's three tables: a row's heading -> its numbers in ``PUBLISHED``."""
