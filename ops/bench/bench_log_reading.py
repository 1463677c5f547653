"""How fast `pilothouse diagnose` reads an engine's log, beside what it costs to read its lines.

    .venv/bin/python ops/bench/bench_log_reading.py
    .venv/bin/python ops/bench/bench_log_reading.py --mib 32 --rounds 3

A log of vLLM and one of SGLang are made up, the same each time: statistics, access lines, requests,
tracebacks and repeated errors, with figures, addresses and ids of their own. Each is written to a
file, and of each round is measured what it takes to read its lines and do nothing with them, to
read it into a window as the command does, and to judge that window by all rules.

Processor time, which other processes disturb less than wall time. MiB a second are of the reading
alone; judging takes about the same for a log of any length. Of the rounds the median, with the
least and the most.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random

from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.files import read_inputs
from ops.bench.hot_path.figures import spread

_BEGAN = datetime(2026, 11, 30, 1, tzinfo=UTC)


def vllm(random: Random) -> Iterator[str]:
    """Lines without end."""
    now = _BEGAN
    while True:
        now += timedelta(milliseconds=random.randint(20, 2000))
        at = f"{now:%m-%d %H:%M:%S}"
        drawn = random.random()
        if drawn < 0.35:
            yield (
                f"(APIServer pid=7) INFO {at} [loggers.py:123] Engine 000: Avg prompt throughput: "
                f"{random.uniform(0, 9000):.1f} tokens/s, Avg generation throughput: "
                f"{random.uniform(0, 900):.1f} tokens/s, Running: {random.randint(0, 64)} reqs, "
                f"Waiting: {random.randint(0, 9)} reqs, GPU KV cache usage: "
                f"{random.uniform(0, 100):.1f}%, Prefix cache hit rate: "
                f"{random.uniform(0, 90):.1f}%"
            )
        elif drawn < 0.80:
            yield f"(APIServer pid=7) {_access(random)}"
        elif drawn < 0.90:
            name = f"chatcmpl-{random.getrandbits(128):032x}"
            said = random.choice(
                (
                    f"[async_llm.py:261] Added request {name}.",
                    f"[logger.py:42] Received request {name}: prompt: 'Tell me about "
                    f"{random.getrandbits(64)}', params: SamplingParams(n=1, max_tokens=512).",
                )
            )
            yield f"(APIServer pid=7) INFO {at} {said}"
        elif drawn < 0.95:
            yield (
                f"(APIServer pid=7) ERROR {at} [serving_chat.py:1122] ValueError: This model's "
                "maximum context length is 8192 tokens. However, you requested "
                f"{random.randint(9000, 9999)} tokens"
            )
        else:
            yield from _traceback(random, f"(EngineCore pid=91) ERROR {at} [core.py:710] ")


def sglang(random: Random) -> Iterator[str]:
    """Lines without end."""
    now = _BEGAN
    while True:
        now += timedelta(milliseconds=random.randint(20, 2000))
        at = f"{now:%Y-%m-%d %H:%M:%S}"
        drawn = random.random()
        load = f"#running-req: {random.randint(0, 64)}, #queue-req: {random.randint(0, 9)}, "
        if drawn < 0.30:
            yield (
                f"[{at} TP0] Decode batch. {load}#token: {random.randint(0, 90000)}, token usage: "
                f"{random.random():.2f}, gen throughput (token/s): {random.uniform(0, 900):.2f}, "
            )
        elif drawn < 0.55:
            yield (
                f"[{at} TP0] Prefill batch. #new-seq: {random.randint(1, 9)}, #new-token: "
                f"{random.randint(1, 8192)}, #cached-token: {random.randint(0, 8192)}, {load}"
            )
        elif drawn < 0.90:
            yield f"[{at}] {_access(random)}"
        elif drawn < 0.95:
            yield (
                f"[{at} TP0] KV cache pool is full. Retract requests. #retracted_reqs: "
                f"{random.randint(1, 4)}, #new_token_ratio: 0.6180 -> 0.8431"
            )
        else:
            yield from _traceback(random, f"[{at} TP0] ")


def _access(random: Random) -> str:
    caller = f"10.0.{random.randint(0, 9)}.{random.randint(1, 250)}:{random.randint(20000, 60000)}"
    status = random.choice(("200 OK",) * 9 + ("400 Bad Request",))
    return f'INFO:     {caller} - "POST /v1/chat/completions HTTP/1.1" {status}'


def _traceback(random: Random, prefix: str) -> Iterator[str]:
    yield f"{prefix}Traceback (most recent call last):"
    for _ in range(random.randint(4, 14)):
        yield f'{prefix}  File "/srv/engine/core.py", line {random.randint(10, 900)}, in run'
        yield f"{prefix}    engine_core.run_busy_loop()"
    yield f"{prefix}RuntimeError: CUDA error: an unknown thing was encountered"


def write(path: Path, lines: Iterator[str], size: int) -> None:
    """As many as make `size` bytes."""
    left = size
    with path.open("w", encoding="utf-8") as file:
        while left > 0:
            left -= file.write(f"{next(lines)}\n")


def seconds(work: Callable[[], object]) -> float:
    """Of the processor."""
    began = time.process_time()
    work()
    return time.process_time() - began


def plain(path: Path) -> int:
    """How many lines it has."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return sum(1 for _ in file)


def measure(path: Path, num_rounds: int) -> None:
    """Prints what one log takes."""
    mib = path.stat().st_size / (1 << 20)
    lines, reading, judging = [], [], []
    for _ in range(num_rounds):
        lines.append(mib / seconds(lambda: plain(path)))
        reading.append(mib / seconds(lambda: read_inputs([str(path)])))
        judging.append(seconds(partial(diagnose, read_inputs([str(path)]), BUILT_IN_RULES)))
    print(
        f"{path.stem:8} read {spread(reading).tell(' MiB/s', 1)}, its lines alone "
        f"{spread(lines).tell(' MiB/s', 0)}, judged in {spread(judging).tell(' s')}"
    )


def main() -> None:
    """Make the logs, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mib", type=int, default=8, help="of each log")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for engine in (vllm, sglang):
            path = Path(folder) / f"{engine.__name__}.log"
            write(path, engine(Random(1)), options.mib << 20)
            measure(path, options.rounds)


if __name__ == "__main__":
    main()
