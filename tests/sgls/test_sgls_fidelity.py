"""The fidelity report says what is so: a true service gets full marks, and a service that breaks its word is found out."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slca.params import Simulator
from slca.records import Attempt
from slca.sgls.calling import draw_arguments
from slca.sgls.fidelity.calls import Made, echoes, exercise, is_valid, seed_agreement
from slca.sgls.fidelity.invariants import check_invariants
from slca.sgls.fidelity.report import markdown, measure, write
from slca.sgls.inference import seed_state
from slca.sgls.stage import load_imports
from slca.sgls.tool import Tool, load_tools

PETS = load_imports(Path("tests/sgls/documents/petstore.yaml"))
STATE = seed_state(PETS, 3, 0)


def silent(_: int) -> None:
    """No progress shown."""


def no_bars(title: str, total: int) -> Callable[[int], None]:
    return silent


def changed(name: str, **behaviour: Any) -> tuple[Tool, ...]:
    """The pet store with another behaviour of one tool."""
    return tuple(
        tool.model_copy(update={"behaviour": tool.behaviour.model_copy(update=behaviour)})
        if tool.name == name and tool.behaviour is not None
        else tool
        for tool in PETS
    )


def test_a_service_that_keeps_its_word_gets_full_marks() -> None:
    measures = measure(PETS, STATE, Simulator(), 6, no_bars)
    assert (measures["tools"], measures["with_behaviour"], measures["undrawn"], measures["failures"]) == (10, 10, [], 0)
    for share in ("valid", "replay_equal", "any_order_equal", "seed_agreement"):
        assert measures[share] == 1.0, share
    assert measures["seed_values"] > 20
    for check, counted in measures["invariants"].items():
        assert counted["held"] > 0 and counted["violated"] == counted["refused"] == 0, check


def test_a_write_that_is_not_shown_breaks_read_your_writes() -> None:
    create = next(tool for tool in PETS if tool.name == "createPet")
    assert create.behaviour is not None
    shortened = {name: target for name, target in create.behaviour.fields.items() if target != "name"}
    liar = changed("createPet", defaults={**create.behaviour.defaults, "name": "Somebody"}, fields=shortened | {"name": "name2"})
    tally = check_invariants(liar, STATE, Simulator(), 3, silent)
    assert not tally.violated  # what the create says that it does is what counts
    read = changed("getPet", answer={"name": "Somebody"})
    tally = check_invariants(read, STATE, Simulator(), 3, silent)
    assert tally.violated["read your writes"] >= 3 and "createPet sent name" in tally.broken[0]


def test_what_a_service_has_no_tool_for_is_not_counted() -> None:
    without = tuple(tool for tool in PETS if tool.name not in ("deletePet", "deleteVisit", "listPets", "listVisits"))
    tally = check_invariants(without, STATE, Simulator(), 2, silent)
    assert tally.held["read your writes"] > 0 and not tally.violated
    assert not tally.held["delete then not found"] and not tally.held["list contains created"]


def test_a_listing_that_hides_new_records_is_found() -> None:
    listing = next(tool for tool in PETS if tool.name == "listPets")
    assert listing.behaviour is not None and listing.behaviour.page is not None
    short = changed("listPets", page=listing.behaviour.page.model_copy(update={"size": 0, "limit": None, "offset": None}))
    tally = check_invariants(short, STATE, Simulator(), 2, silent)
    assert tally.violated["list contains created"] == 2


def test_validity_is_judged_by_the_schema_and_not_by_the_simulator() -> None:
    done = exercise(PETS, STATE, Simulator(), 1, silent)
    call = next(call for call in done.made if call.tool.name == "getPet")
    assert is_valid(call) is True
    other = call.tool.model_copy(update={"output": {"type": "object", "required": ["no_such_field"]}})
    assert is_valid(type(call)(other, call.arguments, call.attempt, 0)) is False


def test_echoes_are_the_places_that_repeat_an_argument_under_its_name() -> None:
    result = {"city": "Oslo", "days": 3, "inner": [{"city": "Oslo"}, {"city": "Rome"}]}
    assert list(echoes({"city": "Oslo", "days": 2}, result)) == [(("city",), "Oslo"), (("inner", 0, "city"), "Oslo")]


def test_seeds_that_disagree_on_an_echo_are_counted() -> None:
    made = exercise(PETS, STATE, Simulator(), 2, silent).made
    agreed, total = seed_agreement(made, made)
    assert agreed == total > 0
    agreed, other = seed_agreement(made, made[::-1])
    assert other == total and agreed < total


def test_drawn_arguments_name_records_that_exist_and_validate() -> None:
    for tool in PETS:
        for index in range(4):
            arguments = draw_arguments(tool, STATE, 1, index)
            assert arguments is not None, tool.name
            if "petId" in tool.properties:
                assert str(arguments["petId"]) in STATE["pet"]


def test_tools_without_state_are_measured_by_their_cache() -> None:
    weather = {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "output": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "sky": {"type": "string"}},
            "required": ["city", "sky"],
        },
        "domain": "w",
    }
    measures = measure(load_tools([weather], "test"), {}, Simulator(), 5, no_bars)
    # Five calls ask once each; three repetitions of the same five are answered from the cache.
    assert measures["questions"] == 5 and measures["hit_rate"] == pytest.approx(15 / 20)
    assert measures["seed_agreement"] == 1.0 and measures["seed_values"] == 5


def test_the_report_is_written_whole(tmp_path: Path) -> None:
    measures = measure(PETS, STATE, Simulator(), 2, no_bars)
    write(tmp_path, "petstore", Simulator(), measures)
    assert json.loads((tmp_path / "fidelity.json").read_text())["service"] == "petstore"
    page = (tmp_path / "fidelity.md").read_text()
    assert page == markdown("petstore", Simulator(), measures)
    assert "| delete then not found |" in page and (tmp_path / "fidelity.png").stat().st_size > 1000


def keys(name: str, kind: str, arguments: list[str], **behaviour: Any) -> dict[str, Any]:
    """A tool on the entity key, all of whose arguments are required texts."""
    texts = {argument: {"type": "string"} for argument in arguments}
    parameters = {"type": "object", "properties": texts, "required": arguments}
    record = {"type": "object", "properties": {"id": {"type": "string"}, "title": {"type": "string"}}}
    does = {"kind": kind, "entity": "key", "id_field": "id", **behaviour}
    return {"name": name, "parameters": parameters, "output": record, "behaviour": does}


def test_a_record_is_read_back_by_a_tool_that_can_name_it() -> None:
    inside = {"where": [{"argument": "repository", "field": "repository", "op": "id"}]}
    tools = load_tools(
        [
            keys("a_deploy_key", "look_up", ["repository", "key_id"], key="key_id", **inside),
            keys("a_user_key", "look_up", ["key_id", "version"], key="key_id"),
            keys("add_user_key", "create", ["title"], fields={"title": "title"}),
            keys("drop_deploy_key", "delete", ["repository", "key_id"], key="key_id", **inside),
        ],
        "test",
    )
    tally = check_invariants(tools, {}, Simulator(), 3, silent)
    # What else a tool requires, here the version, is drawn; nobody can delete a user's key, so that is not counted.
    assert tally.violated == tally.refused == Counter() and tally.held == {"read your writes": 3}


def test_patterns_that_python_does_not_know_are_judged_too() -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string", "pattern": r"^\p{L}+$"}}}
    named = {"type": "object", "patternProperties": {r"^\p{L}+$": {"type": "string"}}}
    (tool,) = load_tools([{"name": "word", "parameters": {"type": "object"}, "output": schema}], "test")
    assert is_valid(Made(tool, {}, Attempt("word", {}, None, {"word": "été"}), 0)) is True
    assert is_valid(Made(tool, {}, Attempt("word", {}, None, {"word": "a b"}), 0)) is False
    untold = tool.model_copy(update={"output": named})
    assert is_valid(Made(untold, {}, Attempt("word", {}, None, {"word": "été"}), 0)) is None


def test_a_list_is_asked_for_from_its_beginning() -> None:
    token = {"page_token": {"type": "string"}}
    listing = keys("list_keys", "search", [], result="items", page={"token": "page_token"})
    listing |= {"parameters": {"type": "object", "properties": token}, "output": None}
    (tool,) = load_tools([listing], "test")
    assert all(draw_arguments(tool, {}, 0, index) == {} for index in range(5))


def test_records_whose_parents_are_gone_are_not_asked_for_while_there_are_others() -> None:
    get_visit = next(tool for tool in PETS if tool.name == "getVisit")
    gone, *left = sorted(STATE["pet"])
    state = {**STATE, "pet": {pet: STATE["pet"][pet] for pet in left}}
    asked = {str((draw_arguments(get_visit, state, 0, index) or {}).get("petId")) for index in range(6)}
    assert asked == {str(visit["petId"]) for visit in STATE["visit"].values()} - {gone}


def test_every_piece_of_work_says_how_long_it_is_and_that_it_is_done() -> None:
    totals: dict[str, int] = {}
    done: Counter[str] = Counter()

    def begin(title: str, total: int) -> Callable[[int], None]:
        totals[title] = total
        return lambda more: done.update({title: more})

    measure(PETS, STATE, Simulator(), 2, begin)
    assert len(totals) == 5 and totals["drawn calls"] == 20
    assert dict(done) == totals


def test_a_report_does_not_wait_for_what_trains_models() -> None:
    program = "import sys, slca.bars, slca.sgls.cli, slca.sgls.fidelity.report; print({'torch', 'transformers'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"
