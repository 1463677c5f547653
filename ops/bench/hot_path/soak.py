"""Memory under a steady load: the same streams for a long time, and a sample every few seconds."""

import asyncio
import contextlib
import statistics
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ops.bench.hot_path.chat_calls import chat_payload, prompt_of
from ops.bench.hot_path.figures import milliseconds
from ops.bench.hot_path.load import LoadClient
from ops.bench.hot_path.machine import resident_bytes
from ops.bench.hot_path.refusals import read_error
from ops.bench.hot_path.stream_call import End, StreamCall
from ops.bench.hot_path.subjects import Pace

GOAL_SHARE = 0.05
_WARM_CONNECTIONS = 64
_SLOW_PAUSE_SECONDS = 0.5
"""After each read of a slow reader: so few bytes a second that the gateway has to wait for it even
where it joins chunks that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakPlan:
    """What is run."""

    seconds: float
    at_once: float
    """Paced streams, slow readers' longer ones counted as the chunks that they are."""
    pace: Pace
    """Of a plain stream; the stub itself must be ready for longer ones."""
    slow_every: int
    """Every so manieth stream is read slowly; 0: none."""
    slow_chunks: int
    """Of a stream that is read slowly: more than the kernel's buffers hold, so that it is felt."""
    num_prompt_chars: int
    sample_seconds: float

    @property
    def rate(self) -> float:
        """Streams a second."""
        slow_share = 1 / self.slow_every if self.slow_every else 0.0
        chunks = self.pace.num_chunks * (1 - slow_share) + self.slow_chunks * slow_share
        return self.at_once / (self.pace.seconds * chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The processes at one moment, and what ended since the last one."""

    at_seconds: float
    resident_mib: Mapping[str, float]
    num_open_files: int
    """Of the gateway."""
    num_in_flight: int
    num_whole: int
    ends: Mapping[str, int]
    """Streams that did not come whole, by how they ended, their status and their error."""
    chunk_delay_p99: float | None
    """Milliseconds, of all readers that are not slow."""
    send_delay_p99: float | None
    """Milliseconds: the client's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One process's resident memory after the warm-up, in MiB."""

    median: float
    least: float
    most: float
    slope_per_minute: float

    @property
    def swing(self) -> float:
        """(Most - least) / median."""
        return (self.most - self.least) / self.median

    @property
    def is_flat(self) -> bool:
        """Within the goal."""
        return self.swing <= GOAL_SHARE


def add_up(samples: Sequence[Sample], name: str, warm_up_seconds: float) -> Memory | None:
    """Of one process; None where nothing was sampled after the warm-up."""
    kept = [each for each in samples if each.at_seconds > warm_up_seconds]
    if len(kept) < 2:
        return None
    values = [each.resident_mib[name] for each in kept]
    minutes = [each.at_seconds / 60 for each in kept]
    return Memory(
        median=statistics.median(values),
        least=min(values),
        most=max(values),
        slope_per_minute=statistics.linear_regression(minutes, values).slope,
    )


@dataclass(slots=True)
class _Window:
    """What ended between two samples."""

    num_whole: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    send_delays: "array[float]" = field(default_factory=lambda: array("d"))

    def note(self, call: StreamCall) -> None:
        if call.end is End.WHOLE and call.status == 200:
            self.num_whole += 1
        else:
            end = f"{call.end} {call.status} {read_error(call).code or ''}".rstrip()
            self.ends[end] = self.ends.get(end, 0) + 1
        delay = call.send_delay()
        if delay is not None:
            self.send_delays.append(delay)


async def soak(
    address: str,
    pids: Mapping[str, int],
    plan: SoakPlan,
    tell: Callable[[Sample], None],
) -> list[Sample]:
    """Run the load, and look at the processes; the first of `pids` is the gateway."""
    window = _Window()
    client = LoadClient(
        address=address,
        pace_seconds=plan.pace.seconds,
        slow_every=plan.slow_every,
        slow_pause_seconds=_SLOW_PAUSE_SECONDS,
        on_ended=lambda call: window.note(call),
    )
    samples: list[Sample] = []
    began = client.clock()

    async def look() -> None:
        nonlocal window
        while True:
            await asyncio.sleep(plan.sample_seconds)
            over, window = window, _Window()
            samples.append(_sample(client.clock() - began, pids, over, client))
            tell(samples[-1])

    await client.warm_up(_WARM_CONNECTIONS)
    looking = asyncio.create_task(look())
    try:
        await client.run(_calls(address, plan), keeps_calls=False)
    finally:
        looking.cancel()
        client.close()
    return samples


def _calls(address: str, plan: SoakPlan) -> Iterator[StreamCall]:
    prompt = prompt_of(plan.num_prompt_chars)
    plain = chat_payload(address, prompt, plan.pace.num_chunks)
    slow = chat_payload(address, prompt, plan.slow_chunks)
    for number in range(int(plan.rate * plan.seconds)):
        is_slow = plan.slow_every and number % plan.slow_every == 0
        payload = slow if is_slow else plain
        yield StreamCall(number=number, payload=payload, scheduled_at=number / plan.rate)


def _sample(
    at_seconds: float, pids: Mapping[str, int], window: _Window, client: LoadClient
) -> Sample:
    delays, client.chunk_delays = client.chunk_delays, array("d")
    gateway_pid = next(iter(pids.values()))
    return Sample(
        at_seconds=at_seconds,
        resident_mib={name: resident_bytes(pid) / 2**20 for name, pid in pids.items()},
        num_open_files=_num_open_files(gateway_pid),
        num_in_flight=client.num_open,
        num_whole=window.num_whole,
        ends=window.ends,
        chunk_delay_p99=milliseconds(delays, 0.99) if delays else None,
        send_delay_p99=milliseconds(window.send_delays, 0.99) if window.send_delays else None,
    )


def _num_open_files(pid: int) -> int:
    with contextlib.suppress(FileNotFoundError):
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return 0
