"""What a policy promises is measured at a gateway, and kept there."""

import asyncio
from pathlib import Path

import pytest

from dataplane.policy import ClassPolicy, encode_snapshot
from dataplane.queueing.pace_limits import MIN_ANSWERS
from dataplane.queueing.queue import DeploymentQueue
from dataplane.routing.first_token_time import MIN_FIRST_TOKENS
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    deployment,
    say,
    serving,
    snapshot,
)
from tests.dataplane.gateway.scripted_engine import ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

PROMISING = (ClassPolicy(name="only", first_token_seconds=5.0),)


def limit_of(queue: DeploymentQueue) -> int | None:
    pace = queue.promises.pace
    return None if pace is None else pace.limit("replica-a")


async def test_a_replica_is_given_fewer_where_its_answers_do_not_keep_the_pace(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.step_seconds = 0.01
    promised = deployment("a", classes=PROMISING, terms={"tpot_seconds": 0.001})
    async with serving(tmp_path, promised) as gateway:
        queue = gateway.app.gateway.fleet.queue_of("chat")
        number = max(MIN_ANSWERS, MIN_FIRST_TOKENS)
        calls = [gateway.http.post(CHAT, json=say(max_tokens=6)) for _ in range(number)]
        answers = await asyncio.gather(*calls)
        assert {each.status_code for each in answers} == {200}
        assert limit_of(queue) == 1
        candidate = queue.find_candidate("replica-a")
        assert candidate is not None
        assert candidate.max_outstanding == 1
        assert queue.promises.read_first_token(5) is not None

        gateway.app.gateway.enforce(encode_snapshot(snapshot(deployment("a"), version=6)))
        assert limit_of(queue) is None
        assert candidate.max_outstanding is None or candidate.max_outstanding > 1
        assert queue.promises.read_first_token(5) is None
