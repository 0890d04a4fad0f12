"""What a split is made of: which tools its questions are about, what else may stand in a tool list, which values it draws."""

import logging
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from slca import params
from slca.files import derive_seed
from slca.records import Json, Plan, State
from slca.sgls.tool import Tool
from slca.tasks import generic
from slca.tasks.phrasing import Book, ChainPhrases, Domain, ToolPhrases
from slca.tasks.values import Part

log = logging.getLogger(__name__)

TRAIN_IMPORTED = 8
"""Imported tools in train and test; the rest of them is kept for unseen_tools."""

IMPORTED_SHARE = 0.04
UNSEEN_IMPORTED_SHARE = 0.25
"""Shares of subjects that are imported tools, where phrased tools are there too."""


@dataclass(frozen=True)
class Draft:
    """A task before its gold plan is executed once more and it gets its id."""

    question: str
    tools: tuple[Tool, ...]
    gold: Plan
    facts: tuple[str, ...]
    reply: str
    state: State = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """The makings of one split.

    phrased, imported: tools that questions are about. background: tools that may stand in a list beside them. services: all tools
    of the splits by their domain, which say what records a domain keeps.
    """

    split: str
    part: Part
    phrased: tuple[Tool, ...]
    imported: tuple[Tool, ...]
    background: tuple[Tool, ...]
    services: Mapping[str, tuple[Tool, ...]]
    imported_share: float
    book: Book
    simulator: params.Simulator

    def domain(self, tool: Tool) -> Domain:
        return self.book.domains[tool.domain]

    def phrases(self, tool: Tool) -> ToolPhrases | None:
        return phrases_of(tool, self.book)

    def subject(self, rng: random.Random) -> Tool:
        """A tool to ask about."""
        imported = not self.phrased or (self.imported and rng.random() < self.imported_share)
        return rng.choice(self.imported if imported else self.phrased)

    def companion(self, rng: random.Random) -> Tool:
        """A tool for the second question beside a subject: any phrased one that has questions in this split."""
        tools = [tool for tool in self.background if (phrases := self.phrases(tool)) and phrases.questions(self.part)]
        return rng.choice(tools) if tools else self.subject(rng)

    @property
    def chains(self) -> tuple[tuple[ChainPhrases, Tool, Tool], ...]:
        """Chains that can be asked about here: all tools at hand, at least one of them a subject."""
        known = {tool.name: tool for tool in (*self.background, *self.phrased)}
        names = {tool.name for tool in self.phrased}
        return tuple(
            (chain, known[chain.steps[0]], known[chain.steps[1]])
            for domain in self.book.domains.values()
            for chain in domain.chains
            if chain.questions(self.part)
            and all(step in known and known[step].domain == domain.domain for step in chain.steps)
            and names & set(chain.steps)
        )

    def tool_list(
        self,
        rng: random.Random,
        must: Sequence[Tool],
        size: int,
        near: str = "",
        refuse: Callable[[Tool], bool] = lambda tool: False,
    ) -> tuple[Tool, ...]:
        """``must`` and others up to ``size``, shuffled; those of domain ``near`` come first. No name occurs twice."""
        chosen = {tool.name: tool for tool in must}
        others = [tool for tool in self.background if not refuse(tool)]
        rng.shuffle(others)
        others.sort(key=lambda tool: tool.domain != near)
        for tool in others:
            if len(chosen) >= size:
                break
            chosen.setdefault(tool.name, tool)
        listed = list(chosen.values())
        rng.shuffle(listed)
        return tuple(listed)


def phrases_of(tool: Tool, book: Book) -> ToolPhrases | None:
    """The phrasings of ``tool``; None for a tool that is not from our catalog."""
    domain = book.domains.get(tool.domain)
    return domain.tools.get(tool.name) if domain is not None and tool.behaviour is not None else None


def make_worlds(tools: Sequence[Tool], book: Book, simulator: params.Simulator) -> dict[str, World]:
    """A world for each split. Imported tools that no question can be made of are left out."""
    services = {domain: tuple(t for t in tools if t.domain == domain) for domain in dict.fromkeys(tool.domain for tool in tools)}
    phrased = [tool for tool in tools if phrases_of(tool, book) is not None]
    others = [tool for tool in tools if phrases_of(tool, book) is None]
    imported = [tool for tool in others if generic.is_usable(tool, services[tool.domain], simulator)]
    if len(imported) < len(others):
        skipped = ", ".join(tool.name for tool in others if tool not in imported)
        log.info("%d imported tools are not asked about (long or undrawable schemas): %s", len(others) - len(imported), skipped)
    imported.sort(key=lambda tool: derive_seed("imported", tool.name))
    free = [tool for tool in imported if not tool.held_out]
    # Without our catalog the imported tools are all there is to train on: four in five then.
    first = free[: TRAIN_IMPORTED if phrased else max(1, 4 * len(free) // 5)]
    rest = [tool for tool in imported if tool not in first]
    seen = [tool for tool in phrased if not tool.held_out]
    unseen = [tool for tool in phrased if tool.held_out]

    def world(split: str, subjects: Collection[Tool], own: Collection[Tool], background: Collection[Tool], share: float) -> World:
        part: Part = "train" if split == "train" else "test"
        return World(split, part, tuple(subjects), tuple(own), tuple(background), services, share, book, simulator)

    return {
        "train": world("train", seen, first, [*seen, *first], IMPORTED_SHARE),
        "test": world("test", seen, first, [*seen, *first], IMPORTED_SHARE),
        "unseen_tools": world("unseen_tools", unseen, rest, [*seen, *unseen, *rest], UNSEEN_IMPORTED_SHARE),
    }


def definition(tool: Tool) -> dict[str, Json]:
    """The tool as a task's list holds it: without where it comes from and which split it belongs to."""
    return {key: value for key, value in tool.to_json().items() if key not in ("source", "held_out")}
