"""More arrives than can be done, and whoever is refused comes again, four times, at once.

Half of the clients say in a header that they come again, half send the same body and say nothing.
The retry budget must let in no more of them than it says, and as many answers must be given as
where nobody came again.
"""

import asyncio
import time
from pathlib import Path
from random import Random

from dataplane.admission.retry_budget import FREE_RETRIES, RETRY_COUNT_HEADER
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy, OverloadTerms
from ops.hostile.calls import Call, Clients, evenly, share_within
from ops.hostile.outcome import Outcome
from ops.hostile.place import open_place
from ops.hostile.setting import NUM_SEQUENCES, call, capacity, clients_of, simulator

NUM_REPLICAS = 2
_OVERLOAD = 1.6
_SECONDS = 15.0
_BUDGET = 0.1
_NUM_RETRIES = 4
_TERMS = AdmissionPolicyTerms(
    revision="storm@1",
    classes=(ClassPolicy(name="all", max_queue=24, deadline_seconds=2.0),),
    max_active_per_replica=NUM_SEQUENCES,
    overload=OverloadTerms(retry_budget=_BUDGET),
)


def run(folder: Path) -> Outcome:
    """The same first tries twice: nobody comes again, everybody does."""
    outcome = Outcome()
    calm = _run_once(folder / "calm", 0, outcome)
    storm = _run_once(folder / "storm", _NUM_RETRIES, outcome)
    first = [each for each in storm if each.kind == "first"]
    retries = [each for each in storm if each.kind != "first"]
    num_answered, num_calm = _num_answered(storm), _num_answered(calm)
    num_let_in = _num_answered(retries)
    outcome.figures |= {
        "answers_without_retries": num_calm,
        "answers_in_the_storm": num_answered,
        "first_tries": len(first),
        "retries": len(retries),
        "retries_answered": num_let_in,
        "refusal_p99_seconds": share_within(
            [each for each in storm if each.status != 200], 0.99, lambda each: each.seconds
        ),
    }
    outcome.expect(len(retries) > len(first), f"{len(retries)} retries storm {len(first)} tries")
    outcome.expect(
        num_answered >= 0.9 * num_calm, f"{num_answered} answers are at least 90 % of {num_calm}"
    )
    most = _BUDGET * len(first) + FREE_RETRIES
    outcome.expect(num_let_in <= most, f"{num_let_in} retries were let in, at most {most:.0f} may")
    for kind in ("told", "same_body"):
        num_of_kind = sum(each.code == "retry_budget" for each in retries if each.kind == kind)
        outcome.expect(num_of_kind > 0, f"{num_of_kind} retries were recognised: {kind}")
    unknown = [each for each in storm if each.status not in (200, 503) or not each.is_whole]
    outcome.expect(not unknown, f"{len(unknown)} calls were neither answered nor refused")
    return outcome


def _run_once(folder: Path, num_retries: int, outcome: Outcome) -> list[Call]:
    with open_place(folder) as place:
        replicas = place.start_replicas(NUM_REPLICAS, simulator())
        place.start_gateway(_TERMS, {each.replica_id: each.address for each in replicas})

        async def storm() -> list[Call]:
            async with clients_of(place, outcome) as (clients, _):
                rate = _OVERLOAD * capacity(NUM_REPLICAS)
                planned = evenly(rate, _SECONDS, lambda number: call(number, kind="first"))
                async with asyncio.TaskGroup() as group:
                    began = time.monotonic()
                    for number, each in enumerate(planned):
                        await asyncio.sleep(began + each.at - time.monotonic())
                        group.create_task(_insist(clients, each, num_retries, Random(number)))
            return clients.calls

        return asyncio.run(storm())


async def _insist(clients: Clients, first: Call, num_retries: int, random: Random) -> None:
    """Send it, and again while it is refused; wait for nothing that the answer says."""
    await clients.send(first)
    last, tells = first, random.random() < 0.5
    for number in range(1, num_retries + 1):
        if last.status == 200:
            return
        await asyncio.sleep(0.05 + 0.2 * random.random())
        last = Call(
            prompt=first.prompt,
            max_tokens=first.max_tokens,
            kind="told" if tells else "same_body",
            headers={RETRY_COUNT_HEADER: str(number)} if tells else {},
        )
        await clients.send(last)


def _num_answered(calls: list[Call]) -> int:
    return sum(each.status == 200 and each.is_whole for each in calls)
