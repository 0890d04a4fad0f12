"""Short, plausible values by property name: a small model has to copy them into its reply."""

import random
import re
from collections.abc import Callable
from datetime import date, timedelta

_WORDS = (
    "amber",
    "birch",
    "cedar",
    "coral",
    "delta",
    "ember",
    "grove",
    "lake",
    "maple",
    "olive",
    "pearl",
    "river",
    "stone",
    "tulip",
)
_NAMES = ("Anna", "Ben", "Carla", "David", "Emma", "Felix", "Hana", "Ivan", "Jana", "Leo", "Mia", "Omar", "Rosa", "Tom", "Yuki")
_CITIES = ("Berlin", "Cairo", "Lima", "Lyon", "Madrid", "Oslo", "Paris", "Porto", "Rome", "Seoul", "Tokyo", "Vienna", "Zürich")
_COUNTRIES = ("Chile", "Egypt", "France", "Germany", "Italy", "Japan", "Kenya", "Norway", "Peru", "Spain")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_STREETS = ("Oak Street", "Lake Road", "Mill Lane", "Park Avenue", "Station Road")

Text = Callable[[random.Random], str]


def _one_of(*values: str) -> Text:
    return lambda rng: rng.choice(values)


def day(rng: random.Random) -> date:
    return date(2026, 1, 1) + timedelta(days=rng.randrange(365))


def clock(rng: random.Random) -> str:
    return f"{rng.randrange(7, 22):02d}:{rng.choice((0, 15, 30, 45)):02d}"


def word_number(rng: random.Random) -> str:
    return f"{rng.choice(_WORDS)}-{rng.randrange(10, 100)}"


def code(rng: random.Random) -> str:
    return "".join(rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(2)) + f"{rng.randrange(1000, 10000)}"


def uuid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def email(rng: random.Random) -> str:
    return f"{rng.choice(_NAMES).lower()}{rng.randrange(10, 100)}@example.com"


def uri(rng: random.Random) -> str:
    return f"https://example.com/{word_number(rng)}"


FORMATS: dict[str, Text] = {
    "date": lambda rng: day(rng).isoformat(),
    "time": lambda rng: f"{clock(rng)}:00Z",
    "date-time": lambda rng: f"{day(rng).isoformat()}T{clock(rng)}:00Z",
    "email": email,
    "uri": uri,
    "uuid": uuid,
}

SHORT_FORMATS: dict[str, Text] = {
    "time": lambda rng: clock(rng),
    "email": lambda rng: f"{rng.choice('abcdefgh')}@{rng.choice('xyz')}.io",
    "uri": lambda rng: f"{rng.choice(('a', 'urn', 'tag'))}:{rng.choice('abcdefgh')}",
}
"""For strings that a maximal length leaves little room."""


def lengthened(text: str, format_name: str, least: int) -> str:
    """``text`` with enough characters where its format takes more."""
    missing = "x" * (least - len(text))
    return text + missing if format_name == "uri" else missing + text if format_name == "email" else text


_TEXTS: dict[str, Text] = {
    "id": code,
    "code": code,
    "number": code,
    "name": _one_of(*_NAMES),
    "owner": _one_of(*_NAMES),
    "author": _one_of(*_NAMES),
    "user": _one_of(*_NAMES),
    "passenger": _one_of(*_NAMES),
    "city": _one_of(*_CITIES),
    "place": _one_of(*_CITIES),
    "location": _one_of(*_CITIES),
    "origin": _one_of(*_CITIES),
    "destination": _one_of(*_CITIES),
    "country": _one_of(*_COUNTRIES),
    "address": lambda rng: f"{rng.randrange(1, 100)} {rng.choice(_STREETS)}",
    "date": FORMATS["date"],
    "day": FORMATS["date"],
    "arrival": FORMATS["date"],
    "time": clock,
    "departure": clock,
    "datetime": lambda rng: f"{day(rng).isoformat()}T{clock(rng)}:00Z",
    "timezone": _one_of("UTC", "Europe/Paris", "Asia/Tokyo", "America/Lima"),
    "weekday": _one_of(*_WEEKDAYS),
    "week": _one_of(*_WEEKDAYS),
    "email": email,
    "phone": lambda rng: f"555-{rng.randrange(1000, 10000)}",
    "url": uri,
    "uri": uri,
    "link": uri,
    "status": _one_of("open", "active", "pending", "done"),
    "state": _one_of("open", "active", "pending", "done"),
    "condition": _one_of("sunny", "cloudy", "rainy", "windy"),
    "weather": _one_of("sunny", "cloudy", "rainy", "windy"),
    "currency": _one_of("USD", "EUR", "GBP", "JPY"),
    "language": _one_of("English", "French", "German", "Spanish"),
    "colour": _one_of("blue", "green", "red", "white"),
    "color": _one_of("blue", "green", "red", "white"),
    "gate": lambda rng: f"{rng.choice('ABCD')}{rng.randrange(1, 40)}",
    "seat": lambda rng: f"{rng.randrange(1, 40)}{rng.choice('ABCDEF')}",
}

_RANGES: dict[str, tuple[int, int]] = {
    "price": (5, 200),
    "cost": (5, 200),
    "amount": (5, 200),
    "balance": (100, 2000),
    "total": (10, 500),
    "rating": (1, 5),
    "stars": (1, 5),
    "score": (1, 5),
    "percent": (0, 100),
    "humidity": (20, 95),
    "temperature": (-5, 35),
    "count": (1, 20),
    "quantity": (1, 20),
    "year": (2020, 2030),
    "month": (1, 12),
    "hour": (0, 23),
    "minutes": (5, 90),
    "latitude": (-60, 60),
    "longitude": (-180, 180),
}


def text_for(name: str) -> Text:
    """What draws a string property called ``name``; its last word counts most."""
    return next((_TEXTS[word] for word in _parts(name) if word in _TEXTS), word_number)


def range_for(name: str) -> tuple[int, int]:
    """The plausible range of a number property called ``name``, both ends included."""
    return next((_RANGES[word] for word in _parts(name) if word in _RANGES), (1, 100))


def _parts(name: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())[::-1]
