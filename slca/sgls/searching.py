"""Which records a search finds, and which page of them it shows.

``eq`` is JSON equality (1 equals 1.0, not true); ``contains`` ignores case and looks into a string or a list; ``le`` and ``ge``
order numbers, or strings (ISO dates); a record without the field does not match. A page's token names the last record before it,
so a list that grows or shrinks meanwhile is still read without gaps or repeats.
"""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slca.records import CallError, Json
from slca.sgls import record_ids
from slca.sgls.refusal import Refusal
from slca.sgls.tool import Behaviour, Condition, Page


@dataclass(frozen=True)
class Shown:
    """The records of one page, first to last, as positions in the list of all; and what can be said of the page."""

    positions: range
    facts: dict[str, Json]


def meets(conditions: Sequence[Condition], record: Mapping[str, Json], arguments: Mapping[str, Json]) -> bool:
    """Whether ``record`` (with its id) meets all conditions whose argument is given."""
    return all(
        _meets(condition, record, arguments[condition.argument]) for condition in conditions if condition.argument in arguments
    )


def shown_page(behaviour: Behaviour, ids: Sequence[str], arguments: Mapping[str, Json]) -> Shown:
    """The page of the records ``ids`` (in order) that ``arguments`` ask for. Raises Refusal for a token that is none."""
    page = behaviour.page or Page()
    size = _whole(arguments, page.limit) or page.size
    start = _after(page, behaviour, ids, arguments) + (_whole(arguments, page.offset) or 0)
    number = _whole(arguments, page.number)
    if number is not None and number > page.first:
        start += (number - page.first) * (size if size is not None else len(ids))
    start = min(start, len(ids))
    end = len(ids) if size is None else min(start + size, len(ids))
    positions = range(start, end)
    facts: dict[str, Json] = {
        "total": len(ids),
        "shown": len(positions),
        "pages": -(-len(ids) // size) if size else min(1, len(ids)),
        "page": number if number is not None else page.first + (start // size if size else 0),
        "limit": size if size is not None else len(positions),
        "offset": start,
        "more": end < len(ids),
    }
    if 0 < end < len(ids):
        facts["token"] = base64.urlsafe_b64encode(ids[end - 1].encode()).decode().rstrip("=")
    return Shown(positions, facts)


def _after(page: Page, behaviour: Behaviour, ids: Sequence[str], arguments: Mapping[str, Json]) -> int:
    token = arguments.get(page.token) if page.token else None
    if not isinstance(token, str) or not token:
        return 0
    try:
        last = base64.b64decode(token + "=" * (-len(token) % 4), altchars="-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise Refusal(
            CallError.INVALID_ARGUMENTS, f"{page.token} is no token of this list; use the one of the page before."
        ) from None
    order = record_ids.order(behaviour)
    return bisect_right([order(record_id) for record_id in ids], order(last))


def _whole(arguments: Mapping[str, Json], name: str | None) -> int | None:
    value = arguments.get(name) if name else None
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else None


def _meets(condition: Condition, record: Mapping[str, Json], wanted: Json) -> bool:
    if condition.field not in record:
        return False
    value = record[condition.field]
    match condition.op:
        case "eq":
            return _equal(value, wanted)
        case "in":
            return isinstance(wanted, list) and any(_equal(value, item) for item in wanted)
        case "id":
            return record_ids.as_id(value) == record_ids.as_id(wanted)
        case "under":
            return isinstance(value, str) and value.startswith(f"{record_ids.as_id(wanted)}/")
        case "contains":
            if isinstance(value, list):
                return any(_equal(_folded(item), _folded(wanted)) for item in value)
            return isinstance(value, str) and isinstance(wanted, str) and wanted.casefold() in value.casefold()
        case "le":
            return _comparable(value, wanted) and bool(value <= wanted)
        case "ge":
            return _comparable(value, wanted) and bool(value >= wanted)


def _equal(left: Json, right: Json) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _folded(value: Json) -> Json:
    return value.casefold() if isinstance(value, str) else value


def is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _comparable(left: Json, right: Json) -> bool:
    return (is_number(left) and is_number(right)) or (isinstance(left, str) and isinstance(right, str))
