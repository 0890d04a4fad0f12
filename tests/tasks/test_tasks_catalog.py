"""The catalog and its phrasing files fit together."""

import re

import pytest

from slca.sgls.catalog_loader import load_catalog
from slca.sgls.tool import Tool
from slca.tasks.phrasing import Book, droppable, slots
from slca.tasks.values import pool

CATALOG = load_catalog()
BY_NAME = {tool.name: tool for tool in CATALOG}


def output_fields(tool: Tool) -> set[str]:
    assert tool.output is not None and tool.behaviour is not None
    properties = tool.output["properties"]
    if tool.behaviour.kind == "search":
        properties = properties[tool.behaviour.result]["items"]["properties"]
    return set(properties)


def test_catalog_is_as_large_and_varied_as_promised() -> None:
    domains = {tool.domain for tool in CATALOG}
    assert len(CATALOG) >= 44 and len(domains) >= 8
    kinds = {tool.behaviour.kind for tool in CATALOG if tool.behaviour}
    assert kinds == {"look_up", "search", "create", "update", "delete", "compute"}
    assert sorted(tool.domain for tool in CATALOG if tool.held_out) == sorted(domains)  # one in each


@pytest.mark.parametrize("tool", CATALOG, ids=lambda tool: tool.name)
def test_definitions_are_closed_compact_and_executable(tool: Tool) -> None:
    assert tool.behaviour is not None and tool.output is not None
    assert tool.parameters["additionalProperties"] is False and tool.output["additionalProperties"] is False
    assert 1 <= len(tool.properties) <= 4 and len(tool.name.split("_")) <= 3
    assert len(tool.description.split()) <= 8
    assert 2 <= len(output_fields(tool)) <= 5 or tool.behaviour.kind == "compute"


@pytest.mark.parametrize("tool", CATALOG, ids=lambda tool: tool.name)
def test_every_tool_has_fitting_phrasings(tool: Tool, book: Book) -> None:
    domain = book.domains[tool.domain]
    phrases = domain.tools[tool.name]
    questions = [*phrases.train, *phrases.test]
    assert len(set(questions)) == len(questions) >= 5
    assert not phrases.train if tool.held_out else 1 <= len(phrases.test) <= 2
    for question in questions:
        assert set(tool.required) <= set(slots(question)) <= set(tool.properties), question
        assert len(re.sub(r"\|[^\]]*\]", "]", question).split()) <= 16 and question[0].isupper() and question[-1] in ".?"
    assert not tool.required or any(set(droppable(question)) & set(tool.required) for question in questions)
    for reply in phrases.replies:
        assert 1 <= len(set(slots(reply))) <= 3 and set(slots(reply)) <= output_fields(tool), reply
    assert phrases.replies


def test_every_chain_links_an_output_to_an_argument(book: Book) -> None:
    chains = [(domain, chain) for domain in book.domains.values() for chain in domain.chains]
    assert len(chains) >= 15
    assert sum(any(BY_NAME[step].held_out for step in chain.steps) for _, chain in chains) >= 4
    for domain, chain in chains:
        first, second = (BY_NAME[step] for step in chain.steps)
        assert first.domain == second.domain == domain.domain
        assert set(chain.link) <= set(second.properties) and set(chain.link.values()) <= output_fields(first)
        assert bool(chain.train) != (first.held_out or second.held_out) and chain.test
        own = set(second.required) - set(chain.link)
        assert not own & set(first.properties)  # one slot would stand for two values
        for question in (*chain.train, *chain.test):
            assert own <= set(slots(question)) <= set(first.properties) | own, question
            assert set(first.required) <= set(slots(question))


def test_every_slot_and_record_field_has_values_in_both_parts(book: Book) -> None:
    for domain in book.domains.values():
        for entity in domain.records.values():
            assert set(entity.fields) <= set(domain.slots)
            assert len(pool(f"id:{entity.prefix}", "test")) > 100
        for kind in domain.slots.values():
            if isinstance(kind, str) and not kind.startswith("ref:"):
                assert pool(kind, "train") and pool(kind, "test")


def test_no_question_of_training_is_held_out(book: Book) -> None:
    train, test = set(book.out_of_scope.train), set(book.out_of_scope.test)
    for domain in book.domains.values():
        for phrases in (*domain.tools.values(), *domain.chains):
            train |= set(phrases.train)
            test |= set(phrases.test)
    assert not train & test
