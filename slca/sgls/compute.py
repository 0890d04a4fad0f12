"""The compute functions of simulated tools: pure, arguments in, JSON object out (method section 5, step 2).

Numbers are worked out in decimal and rounded half up to 2 decimals; a whole result is an int. Rates and units are those
of a simulated service: fixed, plausible, not real quotes. Impossible input raises ValueError with one sentence that names the
argument; the simulator turns it into an ``invalid_arguments`` result.

| function | arguments | result |
|---|---|---|
| ``calculate`` | a, b: number; operation: add, subtract, multiply, divide | result |
| ``percentage_of`` | percent, value: number | result |
| ``tip`` | amount, percent: number | tip, total |
| ``split_bill`` | amount: number; people: integer >= 1; percent: number, the tip (0 when absent) | total, per_person |
| ``loan_payment`` | principal, annual_rate (percent): number; months: integer 1..600 | monthly_payment, total_paid |
| ``compound_interest`` | principal, annual_rate (percent): number; years: integer 0..100 | balance, interest |
| ``convert_currency`` | amount: number; from_currency, to_currency: code of ``CURRENCIES`` | amount, currency |
| ``convert_units`` | value: number; from_unit, to_unit: of one group of ``UNITS``, or of ``TEMPERATURES`` | value, unit |
| ``add_days`` | date: YYYY-MM-DD; days: integer, may be negative | date, weekday |
| ``days_between`` | start, end: YYYY-MM-DD | days (negative when end is earlier) |
| ``day_of_week`` | date: YYYY-MM-DD | weekday |
"""

import re
from collections.abc import Callable
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal

from slca.records import Json

LARGEST = 10**12
"""Numbers beyond this, given or computed, are refused."""

CURRENCIES: dict[str, Decimal] = {
    code: Decimal(rate)
    for code, rate in {
        "USD": "1",
        "EUR": "0.92",
        "GBP": "0.8",
        "CHF": "0.88",
        "JPY": "150",
        "CNY": "7.2",
        "INR": "84",
        "BRL": "5.5",
        "MXN": "18",
        "CAD": "1.4",
        "AUD": "1.5",
        "SEK": "10.5",
    }.items()
}
"""Units of each currency that one US dollar buys."""

UNITS: dict[str, dict[str, Decimal]] = {
    group: {unit: Decimal(size) for unit, size in sizes.items()}
    for group, sizes in {
        "length": {"mm": "0.001", "cm": "0.01", "m": "1", "km": "1000", "in": "0.0254", "ft": "0.3048", "mi": "1609.344"},
        "mass": {"g": "1", "kg": "1000", "oz": "28.349523125", "lb": "453.59237"},
        "volume": {"ml": "0.001", "l": "1", "cup": "0.2365882365", "gal": "3.785411784"},
        "speed": {"kmh": "1", "mph": "1.609344"},
    }.items()
}
"""Size of each unit in its group's base unit; units convert within their group."""

TEMPERATURES = ("C", "F", "K")

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def calculate(arguments: dict[str, Json]) -> Json:
    a, b, operation = _number(arguments, "a"), _number(arguments, "b"), _text(arguments, "operation")
    if operation == "divide" and b == 0:
        raise ValueError("b must not be 0 when operation is divide.")
    operations: dict[str, Callable[[], Decimal]] = {
        "add": lambda: a + b,
        "subtract": lambda: a - b,
        "multiply": lambda: a * b,
        "divide": lambda: a / b,
    }
    if operation not in operations:
        raise ValueError(f"operation must be one of {', '.join(operations)}.")
    return {"result": _rounded(operations[operation]())}


def percentage_of(arguments: dict[str, Json]) -> Json:
    return {"result": _rounded(_number(arguments, "percent") * _number(arguments, "value") / 100)}


def tip(arguments: dict[str, Json]) -> Json:
    amount = _number(arguments, "amount", least=0)
    added = amount * _number(arguments, "percent", least=0) / 100
    return {"tip": _rounded(added), "total": _rounded(amount + added)}


def split_bill(arguments: dict[str, Json]) -> Json:
    percent = _number(arguments, "percent", least=0) if "percent" in arguments else Decimal(0)
    total = _number(arguments, "amount", least=0) * (100 + percent) / 100
    people = _integer(arguments, "people", least=1)
    return {"total": _rounded(total), "per_person": _rounded(total / people)}


def loan_payment(arguments: dict[str, Json]) -> Json:
    principal = _number(arguments, "principal", least=0)
    rate = _number(arguments, "annual_rate", least=0, most=1000) / 1200
    months = _integer(arguments, "months", least=1, most=600)
    # Annuity: P r / (1 - (1 + r)^-n), whose limit at r = 0 is P / n.
    discount = 1 - (1 + rate) ** -months
    payment = principal * rate / discount if discount else principal / months
    return {"monthly_payment": _rounded(payment), "total_paid": _rounded(payment * months)}


def compound_interest(arguments: dict[str, Json]) -> Json:
    principal = _number(arguments, "principal", least=0)
    growth = 1 + _number(arguments, "annual_rate", least=-100, most=1000) / 100
    years = _integer(arguments, "years", least=0, most=100)
    balance = principal * growth**years if years else principal  # 0 ** 0 is undefined in decimal arithmetic
    return {"balance": _rounded(balance), "interest": _rounded(balance - principal)}


def convert_currency(arguments: dict[str, Json]) -> Json:
    source, target = _text(arguments, "from_currency"), _text(arguments, "to_currency")
    for name, code in (("from_currency", source), ("to_currency", target)):
        if code not in CURRENCIES:
            raise ValueError(f"{name} must be one of {', '.join(CURRENCIES)}.")
    amount = _number(arguments, "amount", least=0) / CURRENCIES[source] * CURRENCIES[target]
    return {"amount": _rounded(amount), "currency": target}


def convert_units(arguments: dict[str, Json]) -> Json:
    value, source, target = _number(arguments, "value"), _text(arguments, "from_unit"), _text(arguments, "to_unit")
    if source in TEMPERATURES:
        group: tuple[str, ...] = TEMPERATURES
    else:
        group = next((tuple(units) for units in UNITS.values() if source in units), ())
    if not group:
        known = [unit for units in UNITS.values() for unit in units]
        raise ValueError(f"from_unit must be one of {', '.join((*known, *TEMPERATURES))}.")
    if target not in group:
        raise ValueError(f"to_unit must be one of {', '.join(group)} when from_unit is {source}.")
    if source in TEMPERATURES:
        converted = _from_kelvin(_to_kelvin(value, source), target)
    else:
        sizes = next(units for units in UNITS.values() if source in units)
        converted = value * sizes[source] / sizes[target]
    return {"value": _rounded(converted), "unit": target}


def add_days(arguments: dict[str, Json]) -> Json:
    start, days = _date(arguments, "date"), _integer(arguments, "days")
    try:
        day = start + timedelta(days=days)
    except OverflowError:
        raise ValueError("days leads beyond the years 1 to 9999.") from None
    return {"date": day.isoformat(), "weekday": WEEKDAYS[day.weekday()]}


def days_between(arguments: dict[str, Json]) -> Json:
    return {"days": (_date(arguments, "end") - _date(arguments, "start")).days}


def day_of_week(arguments: dict[str, Json]) -> Json:
    return {"weekday": WEEKDAYS[_date(arguments, "date").weekday()]}


FUNCTIONS: dict[str, Callable[[dict[str, Json]], Json]] = {
    function.__name__: function
    for function in (
        calculate,
        percentage_of,
        tip,
        split_bill,
        loan_payment,
        compound_interest,
        convert_currency,
        convert_units,
        add_days,
        days_between,
        day_of_week,
    )
}


def _given(arguments: dict[str, Json], name: str) -> Json:
    if name not in arguments:
        raise ValueError(f"{name} is missing.")
    return arguments[name]


def _number(arguments: dict[str, Json], name: str, least: int = -LARGEST, most: int = LARGEST) -> Decimal:
    value = _given(arguments, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number.")
    if not least <= value <= most:  # also refuses NaN
        raise ValueError(f"{name} must be between {least} and {most}.")
    return Decimal(str(value))


def _integer(arguments: dict[str, Json], name: str, least: int = -LARGEST, most: int = LARGEST) -> int:
    value = _number(arguments, name, least, most)
    if value != value.to_integral_value():
        raise ValueError(f"{name} must be a whole number.")
    return int(value)


def _text(arguments: dict[str, Json], name: str) -> str:
    value = _given(arguments, name)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string.")
    return value


def _date(arguments: dict[str, Json], name: str) -> date:
    text = _text(arguments, name)
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):  # fromisoformat alone also takes 20260301 and 2026-W09-7
        raise ValueError(f"{name} must be a date of the form YYYY-MM-DD.")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{name} is not a day of the calendar.") from None


def _to_kelvin(value: Decimal, unit: str) -> Decimal:
    kelvin = {"K": value, "C": value + Decimal("273.15"), "F": (value + Decimal("459.67")) * 5 / 9}[unit]
    if kelvin < 0:
        raise ValueError("value is below absolute zero.")
    return kelvin


def _from_kelvin(kelvin: Decimal, unit: str) -> Decimal:
    return {"K": kelvin, "C": kelvin - Decimal("273.15"), "F": kelvin * 9 / 5 - Decimal("459.67")}[unit]


def _rounded(value: Decimal) -> int | float:
    if abs(value) > LARGEST:
        raise ValueError(f"the result is beyond {LARGEST}.")
    rounded = value.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    return int(rounded) if rounded == rounded.to_integral_value() else float(rounded)
