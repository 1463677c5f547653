"""What the scheduler alone costs in a saturated simulation: per step and per request.

    .venv/bin/python ops/bench/bench_scheduler.py --rounds 5
    .venv/bin/python ops/bench/bench_scheduler.py --rounds 5 --against 266719d

Scripted sequences keep `--batch` slots full from a queue that never runs dry: prompts have a
median of 300 tokens, outputs of 100, both lognormal, drawn from one seed; no two prompts share
a block. Blocks are plenty, so that nothing is preempted. It measures `add`, `schedule` and
`commit` together, in seconds of processor time, so that other processes disturb it little.

Each round is a fresh process; the rounds of all variants are interleaved. `--against` takes
`dataplane/scheduling` of another revision from git as the peer. Prints the median over the rounds,
and their range.
"""

import argparse
import io
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig
from dataplane.scheduling.sequence import Sequence

ROOT = Path(__file__).resolve().parents[2]
QUEUE_DEPTH = 8


class Saturation:
    """A scheduler whose slots are full and whose queue is `QUEUE_DEPTH` deep until the end."""

    def __init__(self, num_requests: int, batch: int, is_prefix_caching: bool) -> None:
        generator = random.Random(1)
        self._lengths = [
            (min(draw(generator, 300), 3000), min(draw(generator, 100), 1000))
            for _ in range(num_requests)
        ]
        self._num_added = 0
        self._first_token = 0
        self._depth = batch + QUEUE_DEPTH
        self._scheduler = Scheduler(
            SchedulerConfig(
                max_num_seqs=batch,
                max_num_batched_tokens=2048 + batch,
                max_model_len=8192,
                num_blocks=64 * batch,
                block_size=16,
                is_prefix_caching=is_prefix_caching,
            )
        )

    def run(self) -> int:
        """Serve all requests; how many steps it took."""
        scheduler, num_steps = self._scheduler, 0
        self._add(self._depth)
        while scheduler.has_work:
            plan = scheduler.schedule()
            self._add(len(plan.admitted))
            if plan.num_prompt_tokens or plan.num_decode_steps:
                scheduler.commit(plan)
                num_steps += 1
        if scheduler.stats.num_preemptions:
            raise SystemExit("blocks ran short: this measures another thing")
        return num_steps

    def _add(self, num_requests: int) -> None:
        first = self._num_added
        for num_prompt, num_output in self._lengths[first : first + num_requests]:
            sequence = Sequence(
                request_id="r",
                sequence_id=self._num_added,
                prompt_token_ids=range(self._first_token, self._first_token + num_prompt),
                max_output_tokens=num_output,
                script=range(num_output),
            )
            self._first_token += num_prompt
            self._num_added += 1
            self._scheduler.add(sequence)


def draw(generator: random.Random, median: int) -> int:
    """A length; at least 1."""
    return max(1, round(generator.lognormvariate(math.log(median), 0.7)))


def measure(num_requests: int, batch: int, is_prefix_caching: bool) -> None:
    """One round in this process; prints its figures as JSON."""
    saturation = Saturation(num_requests, batch, is_prefix_caching)
    started = time.process_time()
    num_steps = saturation.run()
    seconds = time.process_time() - started
    print(json.dumps({"seconds": seconds, "steps": num_steps, "requests": num_requests}))


def run_round(folder: Path, num_requests: int, batch: int, caching: str) -> dict[str, float]:
    """One round in a fresh process that finds `dataplane` in `folder`."""
    answer = subprocess.run(
        [sys.executable, __file__, "--measure", caching, "--batch", str(batch),
         "--requests", str(num_requests)],
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        check=True,
    )  # fmt: skip
    figures: dict[str, float] = json.loads(answer.stdout)
    return figures


def take_revision(revision: str, folder: Path) -> None:
    """Put `dataplane/scheduling` of a revision, which needs nothing else, into `folder`."""
    archive = subprocess.run(
        ["git", "archive", revision, "dataplane/__init__.py", "dataplane/scheduling"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")


def told(values: list[float], unit: str, digits: int = 1) -> str:
    """Median and range."""
    return (
        f"{statistics.median(values):,.{digits}f} {unit} "
        f"({min(values):,.{digits}f} to {max(values):,.{digits}f})"
    )


def compare(rounds: int, num_requests: int, batch: int, against: str | None) -> None:
    """Run all variants in turn, and print a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        sides = [("this tree", ROOT)]
        if against is not None:
            take_revision(against, Path(folder))
            sides.append((against, Path(folder)))
        found: dict[tuple[str, str], list[dict[str, float]]] = {}
        for _ in range(rounds):
            for name, place in sides:
                for caching in ("off", "on"):
                    figures = run_round(place, num_requests, batch, caching)
                    found.setdefault((name, caching), []).append(figures)
    print(f"batch {batch}, {rounds} rounds")
    for (name, caching), figures_of in found.items():
        per_step = [1e6 * f["seconds"] / f["steps"] for f in figures_of]
        per_request = [1e6 * f["seconds"] / f["requests"] for f in figures_of]
        rates = [f["steps"] / f["seconds"] for f in figures_of]
        print(
            f"{name:10}  prefix caching {caching:3}  {told(per_step, 'us/step')}   "
            f"{told(per_request, 'us/request')}   {told(rates, 'steps/s', 0)}"
        )


def main() -> None:
    """Measure one round, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=3000, help="in a round")
    parser.add_argument("--batch", type=int, default=64, help="slots")
    parser.add_argument("--against", metavar="REVISION", help="a revision of this repository")
    parser.add_argument("--measure", choices=["off", "on"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.requests, options.batch, options.measure == "on")
    else:
        compare(options.rounds, options.requests, options.batch, options.against)


if __name__ == "__main__":
    main()
