"""SLCA with credit per call: removes the paper's admitted limit, one scalar for all calls of a rollout (method section 4).

    on call j of step k:  A_tool,i + lambda_tool * (c_ikj - mean_k) / (std_k + eps)
    elsewhere:            as in ``slca``

c_ikj is the call's own score (``slca.hierr.calls``); mean_k and std_k run over all calls that the scorable members of the group
made in their k-th step. With fewer than two such calls nothing is added. Own scores are facts of the calls, so the lock holds.
"""

from dataclasses import replace

import numpy as np

from slca.credit.group import Groups, deviations
from slca.credit.rule import SegmentAdvantages, Settings, calls_of
from slca.credit.slca import slca


def slca_call(groups: Groups, settings: Settings) -> SegmentAdvantages:
    calls = calls_of(groups, "slca_call")
    added = [[0.0] * len(scores) for scores in calls.scores]
    for rows in groups.rows():
        of_step: dict[int, list[tuple[int, int]]] = {}
        for row in rows[groups.scorable[rows]].tolist():
            for place, step in enumerate(calls.steps[row]):
                of_step.setdefault(step, []).append((row, place))
        for places in of_step.values():
            distances, deviation = deviations(np.array([calls.scores[row][place] for row, place in places]))
            for (row, place), distance in zip(places, distances.tolist(), strict=True):
                added[row][place] = settings.lambda_tool * distance / (deviation + settings.eps)
    return replace(slca(groups, settings), calls=tuple(tuple(row) for row in added))
