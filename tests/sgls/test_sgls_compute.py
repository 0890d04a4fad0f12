"""Compute functions: values worked out by hand, impossible input refused with the argument's name."""

import pytest

from slca.records import Json
from slca.sgls.compute import FUNCTIONS


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("calculate", {"a": 7, "b": 2, "operation": "divide"}, {"result": 3.5}),
        # 1.005 * 1 is 1.005 in decimal, half up 1.01; as binary floats it is below and would give 1.0.
        ("calculate", {"a": 1.005, "b": 1, "operation": "multiply"}, {"result": 1.01}),
        ("calculate", {"a": 0.1, "b": 0.2, "operation": "add"}, {"result": 0.3}),
        ("percentage_of", {"percent": 15, "value": 60}, {"result": 9}),
        ("tip", {"amount": 42.5, "percent": 20}, {"tip": 8.5, "total": 51}),
        # 100 + 10 % = 110; 110 / 3 = 36.666...
        ("split_bill", {"amount": 100, "people": 3, "percent": 10}, {"total": 110, "per_person": 36.67}),
        ("split_bill", {"amount": 90, "people": 4}, {"total": 90, "per_person": 22.5}),
        # r = 0.01; 1.01^-12 = 0.88744923; 1000 * 0.01 / 0.11255077 = 88.848789; times 12 = 1066.18546.
        ("loan_payment", {"principal": 1000, "annual_rate": 12, "months": 12}, {"monthly_payment": 88.85, "total_paid": 1066.19}),
        ("loan_payment", {"principal": 1200, "annual_rate": 0, "months": 12}, {"monthly_payment": 100, "total_paid": 1200}),
        # 1000 * 1.05^2 = 1102.5
        ("compound_interest", {"principal": 1000, "annual_rate": 5, "years": 2}, {"balance": 1102.5, "interest": 102.5}),
        # A dollar buys 0.92 euro and 0.8 pound: 46 / 0.92 * 0.8 = 40.
        ("convert_currency", {"amount": 46, "from_currency": "EUR", "to_currency": "GBP"}, {"amount": 40, "currency": "GBP"}),
        ("convert_units", {"value": 10, "from_unit": "mi", "to_unit": "km"}, {"value": 16.09, "unit": "km"}),
        ("convert_units", {"value": 212, "from_unit": "F", "to_unit": "C"}, {"value": 100, "unit": "C"}),
        # 2028 is a leap year; 1 March 2028 is a Wednesday.
        ("add_days", {"date": "2028-02-28", "days": 2}, {"date": "2028-03-01", "weekday": "Wednesday"}),
        ("days_between", {"start": "2026-03-10", "end": "2026-03-01"}, {"days": -9}),
        ("day_of_week", {"date": "2000-01-01"}, {"weekday": "Saturday"}),
    ],
)
def test_results(name: str, arguments: dict[str, Json], result: Json) -> None:
    assert FUNCTIONS[name](arguments) == result


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("calculate", {"a": 1, "b": 0, "operation": "divide"}, "b"),
        ("calculate", {"a": 1, "b": 2, "operation": "power"}, "operation"),
        ("calculate", {"a": True, "b": 2, "operation": "add"}, "a"),
        ("calculate", {"a": float("nan"), "b": 2, "operation": "add"}, "a"),
        ("calculate", {"a": 10**12, "b": 10**12, "operation": "multiply"}, "result"),
        ("split_bill", {"amount": 10, "people": 0}, "people"),
        ("split_bill", {"amount": 10, "people": 2.5}, "people"),
        ("split_bill", {"amount": 10}, "people"),
        ("tip", {"amount": "10", "percent": 5}, "amount"),
        ("convert_currency", {"amount": 1, "from_currency": "USD", "to_currency": "XXX"}, "to_currency"),
        ("convert_units", {"value": 1, "from_unit": "kg", "to_unit": "km"}, "to_unit"),
        ("convert_units", {"value": -1, "from_unit": "K", "to_unit": "C"}, "absolute zero"),
        ("add_days", {"date": "2026-02-29", "days": 1}, "date"),
        ("add_days", {"date": "20260201", "days": 1}, "date"),
        ("add_days", {"date": "9999-12-31", "days": 1}, "days"),
        ("add_days", {"date": "2026-01-01", "days": 10**11}, "days"),
    ],
)
def test_impossible_input_is_a_sentence_about_the_argument(name: str, arguments: dict[str, Json], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        FUNCTIONS[name](arguments)


def test_an_interest_rate_too_small_to_count_is_no_interest() -> None:
    result = FUNCTIONS["loan_payment"]({"principal": 600, "annual_rate": 1e-300, "months": 6})
    assert result == {"monthly_payment": 100, "total_paid": 600}
