"""Words that real APIs use, compared without case, hyphens and underscores: ``petId``, ``pet_id`` and ``PetID`` are one name."""

import re
from collections.abc import Collection

from slca.sgls.tool import Counted

WRAPPERS = {"data", "result", "item", "record", "payload", "response", "object", "resource", "attributes"}
"""Properties that hold the one record of an answer or a body."""
LISTS = {
    "items",
    "data",
    "results",
    "records",
    "entries",
    "content",
    "contents",
    "values",
    "value",
    "list",
    "rows",
    "hits",
    "resources",
}
"""Properties that hold the records of a list."""
IDS = ("id", "uuid", "guid", "uid")
NAMES = ("key", "slug", "code", "name")
"""Properties by which records are named, the likeliest first; the second kind only where they look like what a path asks for."""

LIMIT = {"limit", "pagesize", "perpage", "maxresults", "maxitems", "size", "take", "top", "pagelimit", "maxpagesize"}
OFFSET = {"offset", "skip", "start", "startindex", "startat"}
NUMBER = {"page", "pagenumber", "pageno", "pageindex", "pagenum"}
TOKEN = {"cursor", "pagetoken", "nexttoken", "continuationtoken", "pagecursor", "nextpagetoken", "nextcursor", "continue"}
"""Arguments that choose a page."""

COUNTS: dict[Counted, set[str]] = {
    "total": {
        "total",
        "totalcount",
        "totalitems",
        "totalresults",
        "totalsize",
        "totalrecords",
        "totalelements",
        "count",
        "numfound",
    },
    "shown": {"numberofelements", "returned", "resultcount", "itemcount", "returnedcount"},
    "pages": {"pages", "totalpages", "pagecount", "lastpage"},
    "page": {"page", "currentpage", "pagenumber", "pageindex"},
    "limit": {"limit", "perpage", "pagesize", "size"},
    "offset": {"offset", "skip", "start", "startindex"},
    "more": {"hasmore", "hasnext", "hasnextpage", "more", "istruncated"},
    "token": {"nextpagetoken", "nextcursor", "nexttoken", "cursor", "continuationtoken", "next", "pagetoken", "continue"},
}
"""Properties of a list's answer, by what they tell (``slca.sgls.tool.Counted``)."""

PAGE_INFO = {"meta", "metadata", "pagination", "paging", "pageinfo", "page", "cursor", "cursors", "responsemetadata"}
"""Objects beside a list that tell of the page."""

WORKED = {"success", "ok", "succeeded", "acknowledged"}
DELETED = {"deleted", "isdeleted", "removed"}
NEIGHBOURS = {"next", "previous", "prev", "nextpage", "previouspage", "error", "errors"}
"""Properties that are null where they may be: links to other pages, and what went wrong."""


def norm(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def snake(name: str) -> str:
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_") or "record"


def singular(name: str) -> str:
    """``categories`` -> ``category``, ``boxes`` -> ``box``, ``pets`` -> ``pet``; what is no plural stays."""
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    if name.endswith(("sses", "xes", "ches", "shes", "uses", "zzes")) and not name.lower().endswith("caches"):
        return name[:-2]
    if name.endswith("s") and not name.endswith(("ss", "us", "is")) and len(name) > 2:
        return name[:-1]
    return name


def id_property(possible: Collection[str], alike: Collection[str], entity: str, parameter: str) -> str | None:
    """Which of the ``possible`` properties holds a record's id. parameter: what the path calls the id.

    The path's own name comes first, then what is left of it without the entity's (``petKey`` -> ``key``), then the entity's id,
    then the usual names of ids, those first that look like the parameter (``alike``: same type and format).
    """
    own, kind = norm(parameter), norm(entity)
    wanted = [own, *(["id"] if own.endswith("id") else []), own.removeprefix(kind), f"{kind}id"] if own else []
    for candidates, words in ((possible, wanted), (alike, (*IDS, *NAMES)), (possible, (*IDS, f"{kind}id"))):
        by_norm: dict[str, str] = {}
        for name in candidates:
            by_norm.setdefault(norm(name), name)
        found = next((by_norm[word] for word in words if word in by_norm), None)
        if found is not None:
            return found
    return None
