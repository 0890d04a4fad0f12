"""How each kind of task is drafted: kind -> function of (world, rng); None where this draw makes no valid task."""

import random
from collections.abc import Callable

from slca.records import TaskKind
from slca.tasks.kinds.abstain import abstain
from slca.tasks.kinds.chain import chain
from slca.tasks.kinds.distractors import distractors
from slca.tasks.kinds.missing import missing
from slca.tasks.kinds.parallel import parallel
from slca.tasks.kinds.single import single
from slca.tasks.world import Draft, World

KINDS: dict[TaskKind, Callable[[World, random.Random], Draft | None]] = {
    TaskKind.SINGLE: single,
    TaskKind.PARALLEL: parallel,
    TaskKind.CHAIN: chain,
    TaskKind.DISTRACTORS: distractors,
    TaskKind.ABSTAIN: abstain,
    TaskKind.MISSING: missing,
}
