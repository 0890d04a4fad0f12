"""The credit inspector: recorded rollouts as one self-contained page, every token with its segment and its advantage.

The page holds everything (data, style, script) and asks the network for nothing. Advantages are computed here, once per method
and rollout: one number per segment and, for rules with credit per call, one more per call; the page only looks them up. Equal
input gives an equal page.
"""

import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from slca.credit import METHODS, Settings, contamination_of
from slca.diagnosis.records import Recorded
from slca.errors import DataError
from slca.files import write_text

Decode = Callable[[Sequence[int]], str]

_PLACE = "/*DATA*/null"


def write_page(path: Path, source: str, recorded: Recorded, settings: Settings, decode: Decode | None = None) -> None:
    """``recorded`` as a page. decode: token ids -> text, for our rollouts; ids are shown as numbers without it."""
    template = (files("slca.diagnosis") / "inspector.html").read_text(encoding="utf-8")
    data = json.dumps(page_data(source, recorded, settings, decode), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    data = data.replace("<", "\\u003c")  # no text can end the script element or start a comment in it
    write_text(path, template.replace(_PLACE, data))


def page_data(source: str, recorded: Recorded, settings: Settings, decode: Decode | None = None) -> dict[str, Any]:
    """What the page shows.

    texts: distinct token texts. rollouts: ``{id, group, tokens, labels, calls, details, masked}``, where tokens are indices into
    texts, labels a digit per token, calls one number per token or none. groups: ``{name, prompt}``. methods: name ->
    ``{contamination, credit}``, where credit holds ``[tool, summary, [per call]]`` for each rollout.
    """
    texts: dict[str, int] = {}
    names = list(dict.fromkeys(recorded.group_names))
    numbers = {name: number for number, name in enumerate(names)}
    rollouts = []
    for row, rollout_id in enumerate(recorded.ids):
        tokens = _texts(recorded, row, decode)
        rollouts.append(
            {
                "id": rollout_id,
                "group": numbers[recorded.group_names[row]],
                "tokens": [texts.setdefault(text, len(texts)) for text in tokens],
                "labels": "".join(str(label) for label in recorded.labels[row]),
                "calls": list(recorded.call_of[row]),
                "details": {name: _shown(value) for name, value in recorded.details[row].items()},
                "masked": not bool(recorded.groups.scorable[row]),
            }
        )
    return {
        "source": source,
        "texts": list(texts),
        "groups": [{"name": name, "prompt": _prompt(recorded, name, decode)} for name in names],
        "rollouts": rollouts,
        "methods": _methods(recorded, settings),
    }


def _texts(recorded: Recorded, row: int, decode: Decode | None) -> Sequence[str]:
    if recorded.tokens[row]:
        return recorded.tokens[row]
    if recorded.rollouts:
        ids = recorded.rollouts[row].completion_ids
        return [decode([token]) for token in ids] if decode else [f"{token} " for token in ids]
    return ["\u25a1"] * len(recorded.labels[row])


def _prompt(recorded: Recorded, name: str, decode: Decode | None) -> str:
    if not (recorded.rollouts and decode):
        return ""
    return decode(recorded.rollouts[recorded.group_names.index(name)].prompt_ids)


def _methods(recorded: Recorded, settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for method, rule in METHODS.items():
        try:
            advantages = rule(recorded.groups, settings)
        except DataError:  # it needs to know single calls
            continue
        calls = advantages.calls if any(recorded.call_of) else None
        found[method] = {
            "contamination": contamination_of(method, recorded.groups, settings),
            "credit": [
                [round(float(tool), 6), round(float(summary), 6), [round(value, 6) for value in calls[row]] if calls else []]
                for row, (tool, summary) in enumerate(zip(advantages.tool, advantages.summary, strict=True))
            ],
        }
    return found


def _shown(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value
