"""The ablation "w/o SGLS" (``simulator.schemas: false``): a simulated service that knows no schemas and no state.

The policy reads the same prompt. Behind it, a call is checked for its tool's name and for the presence of required arguments,
as the published simulator checks them; every tool then answers with one made-up word, whatever the state. Only training uses
this: gold plans, scores and evaluation stay with the full simulator. HierR's format score counts what the simulator let pass,
so here it no longer punishes arguments of a wrong type.
"""

from collections.abc import Sequence

from slca.chat import Conversation
from slca.rollouts.engine import Engine, Request, _Trajectory
from slca.sgls.simulator import Session
from slca.sgls.tool import Tool


class SchemalessEngine(Engine):
    """An engine whose sessions hold stripped tools and an empty state."""

    def _start(self, request: Request, tools: tuple[Tool, ...], opening: Conversation) -> _Trajectory:
        trajectory = super()._start(request, tools, opening)
        trajectory.session = Session(stripped(tools), {}, self.simulator, session=request.task.task_id, cache=self.cache)
        return trajectory


def stripped(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools without behaviour, output schema and any constraint on arguments but which are required."""
    return tuple(
        tool.model_copy(
            update={
                "parameters": {"type": "object", "required": list(tool.required)},
                "output": None,
                "behaviour": None,
            }
        )
        for tool in tools
    )
