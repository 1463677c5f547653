"""Following one rollout to its end, a line for each of its moves."""

import time
from typing import Any

from controlplane.api.rollout_views import RolloutDetail
from controlplane.cli.client import convert_answer, get_json
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError, RefusedError, UnreachableError
from controlplane.cli.rollout_output import move_line
from controlplane.cli.terminal import say, say_json

PROMOTED, ABORTED = "promoted", "aborted"
_MOST_AWAY = 30
"""Looks in a row that find no control plane, or none whose database answers: it may be restarted
meanwhile."""


def follow(url: str, number: int, interval_seconds: float, *, is_json: bool) -> None:
    """Print its moves until it is over. Raises SystemExit with FAILED where it was aborted, and a
    CallError where there is none, or nobody answers for long."""
    num_told = num_away = 0
    while True:
        try:
            answer = get_json(url, f"/api/v1/rollouts/{number}")
        except CallError as error:
            num_away += 1
            if num_told == 0 or num_away > _MOST_AWAY or not _may_come_back(error):
                raise
        else:
            num_away = 0
            view = convert_answer(url, answer, RolloutDetail)
            _tell(answer, view, num_told, is_json=is_json)
            num_told = len(view.moves)
            if view.rollout.state == ABORTED:
                raise SystemExit(ExitCode.FAILED)
            if view.rollout.state == PROMOTED:
                return
        time.sleep(interval_seconds)


def _may_come_back(error: CallError) -> bool:
    if isinstance(error, RefusedError):
        return error.status_code >= 500
    return isinstance(error, UnreachableError)


def _tell(answer: Any, view: RolloutDetail, num_told: int, *, is_json: bool) -> None:
    number = view.rollout.number
    for told, move in list(zip(answer["moves"], view.moves, strict=True))[num_told:]:
        if is_json:
            say_json({"rollout": number, **told}, is_line=True)
        else:
            say(move_line(number, move))
