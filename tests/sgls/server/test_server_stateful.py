"""Create, read, update, delete and list over HTTP never diverge from an independent model, forks and resets included."""

import itertools
import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from serving import Client, notes, serving

from slca.records import Json

STEPS = 10_000
TITLES = st.sampled_from(["Milk", "milk and bread", "Łódź", "東京", "a/b?c&d=e", "..", "50 %", '"'])
STARS = st.integers(0, 5)
TAGS = st.lists(st.sampled_from(["x", "y z", "ü"]), max_size=3)
FIRST = {"first": {"title": "Buy milk", "stars": 2}}


class Notes(RuleBasedStateMachine):
    """``records`` is what the service must hold. Each example speaks to a session of its own."""

    client: Client
    steps = 0
    sessions = itertools.count()

    @initialize()
    def begin(self) -> None:
        self.client.session = f"model-{next(self.sessions)}"
        self.forked: list[str] = []
        self.records: dict[str, dict[str, Json]] = json.loads(json.dumps(FIRST))

    def teardown(self) -> None:
        for session in [self.client.session, *self.forked]:
            self.client.send("DELETE", f"/_slca/sessions/{session}")

    def expect(self, method: str, path: str, status: int, answer: Json = None, body: Json = None) -> Json:
        Notes.steps += 1
        reply = self.client.send(method, path, body)
        assert reply.status == status, reply
        if status == 204:
            assert reply.body == b""
        elif status >= 400:
            assert reply.error == answer
        elif answer is not None:
            assert reply.json == answer
        return reply.json if reply.body else None

    def chosen(self, number: int) -> str:
        return sorted(self.records)[number % len(self.records)]

    @rule(title=TITLES, stars=STARS, tags=st.none() | TAGS)
    def create(self, title: str, stars: int, tags: list[str] | None) -> None:
        record = {"title": title, "stars": stars} | ({} if tags is None else {"tags": tags})
        made = self.expect("POST", "/notes", 201, body=record)
        note_id = made.pop("id")
        assert made == record and note_id not in self.records
        self.records[note_id] = record

    @rule(stars=st.sampled_from([-1, 6, "1", 1.5, None, True]))
    def create_what_is_invalid(self, stars: Json) -> None:
        self.expect("POST", "/notes", 422, "invalid_arguments", {"title": "no", "stars": stars})

    @precondition(lambda self: self.records)
    @rule(number=st.integers(0, 99))
    def read(self, number: int) -> None:
        note_id = self.chosen(number)
        self.expect("GET", f"/notes/{quote(note_id, safe='')}", 200, {"id": note_id, **self.records[note_id]})

    @rule(note_id=st.sampled_from(["none", "..", "a/b", "FIRST", "É"]), method=st.sampled_from(["GET", "PATCH", "DELETE"]))
    def touch_what_is_not_there(self, note_id: str, method: str) -> None:
        self.expect(method, f"/notes/{quote(note_id, safe='')}", 404, "not_found", {} if method == "PATCH" else None)

    @precondition(lambda self: self.records)
    @rule(number=st.integers(0, 99), title=st.none() | TITLES, stars=st.none() | STARS, tags=st.none() | TAGS)
    def update(self, number: int, title: str | None, stars: int | None, tags: list[str] | None) -> None:
        note_id = self.chosen(number)
        given = {"title": title, "stars": stars, "tags": tags}
        changes = {name: value for name, value in given.items() if value is not None}
        self.records[note_id] = {**self.records[note_id], **changes}
        self.expect("PATCH", f"/notes/{quote(note_id, safe='')}", 200, {"id": note_id, **self.records[note_id]}, changes)

    @precondition(lambda self: self.records)
    @rule(number=st.integers(0, 99))
    def delete(self, number: int) -> None:
        note_id = self.chosen(number)
        del self.records[note_id]
        self.expect("DELETE", f"/notes/{quote(note_id, safe='')}", 204)
        self.expect("GET", f"/notes/{quote(note_id, safe='')}", 404, "not_found")

    @rule(text=st.none() | st.sampled_from(["MILK", "ł", "?", ""]), least=st.none() | STARS, most=st.none() | STARS)
    def list(self, text: str | None, least: int | None, most: int | None) -> None:
        given = {"q": text, "min-stars": least, "max-stars": most}
        query = "&".join(f"{name}={quote(str(value))}" for name, value in given.items() if value is not None)
        found = [
            {"id": note_id, **record}
            for note_id, record in sorted(self.records.items())
            if (text is None or text.casefold() in record["title"].casefold())
            and (least is None or record["stars"] >= least)
            and (most is None or record["stars"] <= most)
        ]
        self.expect("GET", f"/notes?{query}", 200, {"notes": found})

    @rule(stay=st.booleans(), title=TITLES)
    def fork(self, stay: bool, title: str) -> None:
        """One of the two goes on; what the other does must not show in it."""
        self.expect("GET", "/notes", 200)  # a session begins with a call
        here = self.client.session
        there = self.expect("POST", f"/_slca/sessions/{here}/fork", 201)["id"]
        other = there if stay else here
        self.client.session = other
        self.expect("POST", "/notes", 201, body={"title": title, "stars": 0})
        self.client.session = here if stay else there
        self.forked.append(other)

    @rule()
    def reset(self) -> None:
        self.expect("POST", f"/_slca/sessions/{self.client.session}/reset", 200)
        self.records = json.loads(json.dumps(FIRST))

    @rule()
    def inspect(self) -> None:
        self.expect("GET", "/notes", 200)
        shown = self.expect("GET", f"/_slca/sessions/{self.client.session}", 200)
        assert shown["state"].get("note", {}) == self.records


@pytest.mark.slow
def test_ten_thousand_steps_over_http_never_diverge_from_a_model_in_memory() -> None:
    with serving(notes()) as server:
        Notes.client = server.client()
        Notes.steps = 0
        checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
        run_state_machine_as_test(
            Notes, settings=settings(max_examples=220, stateful_step_count=50, deadline=None, suppress_health_check=checks)
        )
        print(f"{Notes.steps} steps")
        assert Notes.steps >= STEPS
