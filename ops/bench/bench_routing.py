"""What it costs to choose a replica among many, and, apart from that, to hash a long prompt.

    .venv/bin/python ops/bench/bench_routing.py
    .venv/bin/python ops/bench/bench_routing.py --replicas 100 --rounds 7

A router with its decision explained, as in a gateway, before `--replicas` replicas with some load
on each. Each choice is placed, gets its first token and ends some 200 choices later, so that loads
move. `two_choices` and `least_outstanding` are told nothing of prompts; `prefix` chooses for
prompts of 4,000 tokens with one of 200 beginnings of 3,200 that any of the replicas may have;
`session` is two choices with 500 sessions; `returning` is two choices while a tenth of all replicas
come back from an ejection. Hashes are computed before, and timed apart.

Wall time of each choice by itself, with garbage collection as in a gateway: of each round the
median and the 99th percentile, which say something on a quiet machine alone. Beside them the mean
processor time of a choice and its end, which other processes disturb little. Of the rounds the
median, with the least and the most.
"""

import argparse
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from random import Random

from dataplane.policy import RoutingTerms
from dataplane.queueing.replica_slots import ReplicaSlots
from dataplane.routing.placement import Placement
from dataplane.routing.prompt_blocks import hash_blocks
from dataplane.routing.request import RoutingRequest
from dataplane.routing.router import Router
from dataplane.routing.terms import create_builtin, create_routing
from ops.bench.hot_path.figures import percentile

NUM_IN_FLIGHT = 200
NUM_BEGINNINGS = 200
NUM_SESSIONS = 500
BEGINNING_TOKENS = 3200
PROMPT_TOKENS = 4000
LONG_PROMPT_TOKENS = 100_000


class Crowd:
    """A router before many replicas, and what is in flight there."""

    def __init__(self, policy: str, num_replicas: int) -> None:
        self.random = Random(1)
        routing = create_routing(RoutingTerms(policy=policy), self.random, create_builtin)
        self.router = Router(time.monotonic, routing, self.random, explains=True)
        self.slots = ReplicaSlots()
        self.names = [f"replica-{number:04}" for number in range(num_replicas)]
        self.slots.set_replicas(dict.fromkeys(self.names, 64), {})
        self.router.set_replicas(set(self.names), set(self.names))
        self.in_flight: deque[Placement] = deque()
        for name in self.names:
            self.slots.take(name, self.random.randrange(32))

    def let_back(self) -> None:
        """A tenth of them, ejected a while ago."""
        for name in self.names[:: max(1, len(self.names) // (len(self.names) // 10 or 1))]:
            candidate = self.slots.find(name)
            assert candidate is not None
            for _ in range(5):
                placement = self.router.choose(None, [candidate])
                placement.fail()
                placement.end()
        self.router.ejections.check(time.monotonic() + 11.0)

    def choose(self, request: RoutingRequest) -> float:
        """Seconds that one choice took."""
        candidates = self.slots.with_room(1, frozenset())
        began = time.perf_counter()
        placement = self.router.choose(request, candidates)
        seconds = time.perf_counter() - began
        self.slots.take(placement.replica_id, 1)
        self.in_flight.append(placement)
        if len(self.in_flight) > NUM_IN_FLIGHT:
            ended = self.in_flight.popleft()
            ended.note_first_token()
            self.slots.give_back(ended.replica_id, 1)
            ended.end()
        return seconds


def _plain(crowd: Crowd) -> Iterator[RoutingRequest]:
    request = RoutingRequest(num_prompt_tokens=PROMPT_TOKENS, num_output_tokens=200)
    while True:
        yield request


def _sessions(crowd: Crowd) -> Iterator[RoutingRequest]:
    while True:
        yield RoutingRequest(
            num_prompt_tokens=PROMPT_TOKENS,
            num_output_tokens=200,
            affinity_key=f"acme/{crowd.random.randrange(NUM_SESSIONS)}",
        )


def _prompts(crowd: Crowd) -> Iterator[RoutingRequest]:
    beginnings = [
        range(number * 10**6, number * 10**6 + BEGINNING_TOKENS) for number in range(NUM_BEGINNINGS)
    ]
    for number, beginning in enumerate(beginnings):  # some have a beginning, some another
        blocks = hash_blocks(beginning, "acme")
        for name in crowd.random.sample(crowd.names, min(len(crowd.names), 1 + number)):
            crowd.router.index.note_sent(name, blocks)
    number = 10**9
    while True:
        number += PROMPT_TOKENS
        own = range(number, number + PROMPT_TOKENS - BEGINNING_TOKENS)
        tokens = [*crowd.random.choice(beginnings), *own]
        yield RoutingRequest(
            num_prompt_tokens=PROMPT_TOKENS,
            num_output_tokens=200,
            blocks=hash_blocks(tokens, "acme"),
        )


CASES: dict[str, tuple[str, Callable[[Crowd], Iterator[RoutingRequest]], bool]] = {
    "two_choices": ("two_choices", _plain, False),
    "least_outstanding": ("least_outstanding", _plain, False),
    "prefix": ("prefix", _prompts, False),
    "session": ("two_choices", _sessions, False),
    "returning": ("two_choices", _plain, True),
}


def measure(case: str, num_replicas: int, num_choices: int) -> tuple[float, float, float]:
    """Median and 99th percentile of one round, and mean processor time, in microseconds."""
    policy, requests_of, lets_back = CASES[case]
    crowd = Crowd(policy, num_replicas)
    if lets_back:
        crowd.let_back()
    source = requests_of(crowd)
    requests = [next(source) for _ in range(num_choices)]
    began = time.process_time()
    taken = [1e6 * crowd.choose(request) for request in requests]
    mean = 1e6 * (time.process_time() - began) / num_choices
    return percentile(taken, 0.5), percentile(taken, 0.99), mean


def measure_hash(num_times: int) -> float:
    """Median milliseconds to hash a long prompt."""
    tokens = tuple(Random(2).randrange(150_000) for _ in range(LONG_PROMPT_TOKENS))
    taken = []
    for _ in range(num_times):
        began = time.perf_counter()
        hash_blocks(tokens, "acme")
        taken.append(1e3 * (time.perf_counter() - began))
    return statistics.median(taken)


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):8.1f} ({min(values):.1f} to {max(values):.1f})"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--replicas", type=int, default=1000)
    parser.add_argument("--choices", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{options.replicas} replicas, {options.choices} choices in each of {options.rounds}")
    rounds = [
        {case: measure(case, options.replicas, options.choices) for case in CASES}
        for _ in range(options.rounds)
    ]
    for case in CASES:
        median, p99, mean = ([each[case][place] for each in rounds] for place in range(3))
        print(f"{case:18} p50 {_spread(median)}  p99 {_spread(p99)}  cpu {_spread(mean)} us")
    hashed = [measure_hash(20) for _ in range(options.rounds)]
    print(f"hashing {LONG_PROMPT_TOKENS} tokens      {_spread(hashed)} ms")


if __name__ == "__main__":
    main()
