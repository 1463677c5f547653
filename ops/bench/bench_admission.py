"""What one admission decision costs, with 20 classes and 200 tenants, however many wait.

    .venv/bin/python ops/bench/bench_admission.py
    .venv/bin/python ops/bench/bench_admission.py --rounds 9 --waiting 0 10000

The policy asks for everything that a policy can ask for: limits of each tenant, prompt tokens in
flight, bounds of the queue in requests, tokens, bytes and age, deadlines, aging, shedding,
degrading and a retry budget. Requests are drawn from one seed, with twelve headers each; every
tenth is a retry. Three ways to match classes:

    tiers      each class compares the tenant's tier, and the number of prompt tokens
    headers    each class compares a header that no request has, so that every expression fails
    plain      one class takes everything: what the rest of the decision costs

and, where each class compares the tenant's tier alone, a queue that is short of room in three ways:

    late       the deadline is about what the crowd takes to drain, so that the wait is estimated
    full       as many of each class wait as may, so that tenants are weighed against each other
    shed       as many wait as may, so that somebody makes way for whoever is worth more

A decision is what happens between a counted prompt and the place in the queue: the class is found,
the load is read, and the pure decision is made; nothing is taken, and who made way is replaced.
`record` is what it costs to write down what was decided. Each decision is timed alone, in
processor time of this process (`process_time_ns`), so that other processes disturb it little. Of
each round the median and the 99th percentile; printed are the medians of the rounds, and their
range.
"""

import argparse
import random
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dataplane.admission.admit import Rejected
from dataplane.admission.class_matching import RequestFacts
from dataplane.admission.deployment_admission import Arrival, Considered, DeploymentAdmission
from dataplane.admission_record import admission_record, rejection_record
from dataplane.enforced_snapshot import CompiledPolicy, compile_snapshot
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DegradeTerms,
    DeploymentPolicy,
    KVLimits,
    OverloadTerms,
    QueueLimits,
    Snapshot,
    TenantLimits,
    TenantPolicy,
)
from dataplane.queueing.queue import DeploymentQueue, Lease, QueueDemand
from ops.bench.hot_path.figures import percentile

NUM_CLASSES = 20
NUM_TENANTS = 200
NUM_SLOTS = 64
WARM_UP = 200
TIER = 'tenant.tier == "t{number}"'
ROOMY = 10**6
"""More than any bench lets wait."""
SHED = tuple(f"c{number}" for number in range(NUM_CLASSES - 3, NUM_CLASSES))
MATCHES = {
    "tiers": 'tenant.tier == "t{number}" && request.num_prompt_tokens > {number}',
    "headers": 'request.headers["x-class"] == "{number}"',
    "plain": None,
}
SHORT = dict.fromkeys(("late", "full", "shed"), TIER)


@dataclass(frozen=True, slots=True)
class Case:
    """One policy to decide by, made to fit a crowd of so many."""

    name: str
    match: str | None
    num_waiting: int

    def compile(self) -> CompiledPolicy:
        """With every term that there is."""
        return compile_terms(self._terms())

    def _terms(self) -> AdmissionPolicyTerms:
        crowd = max(1, self.num_waiting)
        return AdmissionPolicyTerms(
            revision="bench@1",
            classes=tuple(self._class(number) for number in range(NUM_CLASSES)),
            max_prompt_tokens_in_flight=10**9,
            queue=QueueLimits(
                max_requests=crowd if self.name == "shed" else ROOMY,
                max_tokens=10**9,
                max_bytes=10**12,
                max_age_seconds=1e6,
            ),
            kv=KVLimits(),
            tenants={
                f"tenant-{number}": TenantLimits(tokens_per_minute=10**9, max_concurrent=ROOMY)
                for number in range(NUM_TENANTS)
            },
            overload=OverloadTerms(
                shed=SHED,
                degrade=DegradeTerms(queue_age_seconds=0.001, max_tokens=64),
                retry_budget=0.1,
            ),
        )

    def _class(self, number: int) -> ClassPolicy:
        takes_rest = self.match is None or number == NUM_CLASSES - 1
        share = max(1, self.num_waiting // NUM_CLASSES)
        return ClassPolicy(
            name=f"c{number}",
            match=None if takes_rest else _written(self.match or "", number),
            priority=10 * (NUM_CLASSES - number),
            max_queue=share if self.name == "full" else ROOMY,
            # One begins every 10 ms in a crowd.
            deadline_seconds=self.num_waiting / 200 if self.name == "late" else 1e5,
            aging_per_second=0.1,
        )


def compile_terms(terms: AdmissionPolicyTerms) -> CompiledPolicy:
    """As a gateway does with a snapshot of one deployment."""
    deployment = DeploymentPolicy(
        name="bench",
        model_name="m",
        model_revision="m@1",
        engine_config_revision="e@1",
        tokenizer_artifact=None,
        max_model_len=None,
        policy=terms,
        contract=None,
        replicas=(),
    )
    return compile_snapshot(Snapshot(version=1, deployments=(deployment,))).policy_of(deployment)


def cases(waiting: Sequence[int]) -> list[Case]:
    """All of them; where nobody waits, nothing is short."""
    return [
        Case(name, match, number)
        for number in waiting
        for name, match in (*MATCHES.items(), *(SHORT if number else {}).items())
    ]


def _written(match: str, number: int) -> str:
    return match.replace("{number}", str(number))


class Crowd:
    """A deployment of which all slots are held, and before which so many wait."""

    def __init__(self, policy: CompiledPolicy, num_waiting: int, seed: int) -> None:
        self._draw = random.Random(seed)
        self._now = 0.0
        self.policy = policy
        self._num_waiting = num_waiting
        self.queue = DeploymentQueue(lambda: self._now, 60.0)
        self.queue.set_replicas({"r": NUM_SLOTS})
        self.admission = DeploymentAdmission("bench", self.queue, lambda: self._now)
        self._held: list[Lease] = []
        for _ in range(NUM_SLOTS + num_waiting):
            self._enter()
        while num_waiting and self.queue.drain.read() is None:
            self._now += 0.01
            self._held.pop().release()
            self._enter()

    def arrivals(self, number: int) -> list[Arrival]:
        """Requests of all tenants."""
        return [self._arrival(index) for index in range(number)]

    def consider(self, arrival: Arrival) -> Considered:
        """The decision."""
        return self.admission.consider(self.policy, arrival, num_replicas=1)

    def refill(self) -> None:
        """Somebody comes for each that made way."""
        while self.queue.num_waiting < self._num_waiting:
            self._enter()

    def _arrival(self, index: int) -> Arrival:
        draw = self._draw
        number = draw.randrange(NUM_TENANTS)
        facts = RequestFacts(
            model="m",
            stream=True,
            num_prompt_tokens=draw.randrange(50, 4000),
            max_output_tokens=draw.randrange(50, 1000),
            headers={f"x-header-{each}": f"value {each} of {index}" for each in range(12)},
            num_bytes=draw.randrange(1000, 20_000),
        )
        return Arrival(
            tenant=TenantPolicy(name=f"tenant-{number}", tier=f"t{draw.randrange(NUM_CLASSES)}"),
            facts=facts,
            why_retry=None if index % 10 else "its client says that it is retry 1",
        )

    def _enter(self) -> None:
        self._now += 1e-4
        classes = self.policy.terms.classes
        num_tokens = self._draw.randrange(100, 4000)
        tenant = f"tenant-{self._draw.randrange(NUM_TENANTS)}"
        demand = QueueDemand(1, tenant, 1.0, num_tokens, num_tokens, 4 * num_tokens)
        self.queue.enter(self._draw.choice(classes), demand).on_leaving(self._take)

    def _take(self, outcome: object) -> None:
        if isinstance(outcome, Lease):
            self._held.append(outcome)


def record(considered: Considered, arrival: Arrival) -> object:
    """What is kept of it."""
    decision = considered.decision
    if isinstance(decision, Rejected):
        return rejection_record(considered, decision, 1)
    return admission_record(considered, decision, arrival.facts, 1)


def measure(crowd: Crowd, number: int) -> tuple[dict[str, float], Counter[str]]:
    """One round, in microseconds, and what was decided."""
    decided: Counter[str] = Counter()
    decisions, records = [], []
    for index, arrival in enumerate(crowd.arrivals(number + WARM_UP)):
        began = time.process_time_ns()
        considered = crowd.consider(arrival)
        made = time.process_time_ns()
        record(considered, arrival)
        written = time.process_time_ns()
        crowd.refill()
        if index >= WARM_UP:
            decisions.append((made - began) / 1e3)
            records.append((written - made) / 1e3)
            decision = considered.decision
            decided[decision.kind if isinstance(decision, Rejected) else "admitted"] += 1
    return {
        "decision p50": statistics.median(decisions),
        "decision p99": percentile(decisions, 0.99),
        "record p50": statistics.median(records),
    }, decided


def main() -> None:
    """Measure, and print a line for each way to match and each number that waits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, nargs="+", default=[0, 1000, 10_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--decisions", type=int, default=2000, help="of each round")
    options = parser.parse_args()
    crowds = {
        (case.name, case.num_waiting): Crowd(case.compile(), case.num_waiting, seed=1)
        for case in cases(options.waiting)
    }
    rounds: dict[tuple[str, int], list[dict[str, float]]] = {key: [] for key in crowds}
    decided: dict[tuple[str, int], Counter[str]] = {key: Counter() for key in crowds}
    for _ in range(options.rounds):
        for key, crowd in crowds.items():  # interleaved, so that all see the same machine
            found, made = measure(crowd, options.decisions)
            rounds[key].append(found)
            decided[key] += made
    print(f"{NUM_CLASSES} classes, {NUM_TENANTS} tenants, {options.rounds} rounds; microseconds")
    for (name, waiting), measured in rounds.items():
        told = [
            f"{what} {statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"
            for what in measured[0]
            for values in [[each[what] for each in measured]]
        ]
        outcomes = ", ".join(f"{num} {what}" for what, num in decided[name, waiting].most_common())
        print(f"{name:8} {waiting:6} waiting   {'   '.join(told)}   [{outcomes}]")


if __name__ == "__main__":
    main()
