"""One run of paced streams against one subject, and its figures."""

import asyncio
import gc
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ops.bench.hot_path.arrivals import Arrivals, arrival_times
from ops.bench.hot_path.chat_calls import chat_calls, chat_payload, prompt_of
from ops.bench.hot_path.figures import milliseconds
from ops.bench.hot_path.load import LoadClient, LoadResult
from ops.bench.hot_path.machine import UseWatch
from ops.bench.hot_path.subjects import Pace, Subject

_WARM_CONNECTIONS = 1.3
_SPARE_CONNECTIONS = 4
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTerms:
    """What is sent."""

    rate: float
    """Streams a second."""
    seconds: float
    pace: Pace
    arrivals: Arrivals
    num_prompt_chars: int
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """What came of it. Latencies in milliseconds; of streams that were answered with chunks."""

    subject: str
    rate: float
    num_sent: int
    num_whole: int
    at_once: float | None
    """Streams that ran at once, on the mean: rate times how long they lasted."""
    first_byte_p50: float | None
    first_byte_p99: float | None
    first_chunk_p50: float | None
    first_chunk_p99: float | None
    chunk_delay_p50: float | None
    chunk_delay_p99: float | None
    send_delay_p99: float
    client_behind: str | None
    """Why the run says more of the client than of the subject; None where it does not."""
    processor_us_by_stream: dict[str, float]
    """Processor time by process, for each stream sent."""
    waiting_by_process: dict[str, float]
    """Share of the time in which a process stood ready and was given no core."""
    cores_of_others: float
    """Cores that processes used meanwhile which are not the bench's."""
    cores_stolen: float
    """Cores that the machine's host took away meanwhile."""
    ends: dict[str, int]
    """Streams by how they ended and their status."""

    @property
    def is_whole(self) -> bool:
        """Every stream came to its end."""
        return self.num_whole == self.num_sent


@dataclass(slots=True)
class Quiet:
    """Which runs count: those in which the rest of the machine used little.

    A run that others disturbed is made again, whatever came of it, as long as there is time.
    """

    max_others: float | None = None
    """Cores that others may use meanwhile; None: every run counts."""
    patience_seconds: float = 600.0
    """For all runs together."""
    num_repeated: int = 0

    async def run(self, subject: Subject, terms: RunTerms) -> RunFigures:
        """The first run that counts; once the patience is spent, any."""
        while True:
            began = time.monotonic()
            await self._wait()
            figures = await run_streams(subject, terms)
            if self.max_others is None or figures.cores_of_others <= self.max_others:
                return figures
            self.patience_seconds -= time.monotonic() - began
            if self.patience_seconds <= 0:
                return figures
            self.num_repeated += 1

    async def _wait(self) -> None:
        while self.max_others is not None and self.patience_seconds > 0:
            watch = UseWatch({})
            await asyncio.sleep(_LOOK_SECONDS)
            if watch.used().cores_of_others <= self.max_others:
                return
            self.patience_seconds -= _LOOK_SECONDS


async def run_streams(subject: Subject, terms: RunTerms) -> RunFigures:
    """Send, wait for all answers, and add up."""
    client = LoadClient(address=subject.address, pace_seconds=terms.pace.seconds)
    payload = chat_payload(
        subject.address, prompt_of(terms.num_prompt_chars), terms.pace.num_chunks
    )
    times = arrival_times(terms.arrivals, terms.rate, terms.seconds, terms.seed)
    at_once = terms.rate * terms.pace.stream_seconds
    await client.warm_up(int(at_once * _WARM_CONNECTIONS) + _SPARE_CONNECTIONS)
    gc.collect()
    gc.freeze()
    watch = UseWatch(subject.pids)
    try:
        result = await client.run(chat_calls(payload, times))
    finally:
        gc.unfreeze()
        client.close()
    figures = _add_up(subject, terms, result, watch)
    await asyncio.sleep(0.2)  # the subject notices that its clients are gone
    return figures


def _add_up(subject: Subject, terms: RunTerms, result: LoadResult, watch: UseWatch) -> RunFigures:
    used = watch.used()
    calls = result.calls
    first_bytes = [s for call in calls if (s := call.first_byte_seconds()) is not None]
    first_chunks = [s for call in calls if (s := call.first_chunk_seconds()) is not None]
    delays, lasted = result.chunk_delays, result.mean_stream_seconds

    def told(values: Any, share: float) -> float | None:
        return milliseconds(values, share) if len(values) else None

    return RunFigures(
        subject=subject.name,
        rate=terms.rate,
        num_sent=len(calls),
        num_whole=result.num_whole,
        at_once=None if lasted is None else terms.rate * lasted,
        first_byte_p50=told(first_bytes, 0.5),
        first_byte_p99=told(first_bytes, 0.99),
        first_chunk_p50=told(first_chunks, 0.5),
        first_chunk_p99=told(first_chunks, 0.99),
        chunk_delay_p50=told(delays, 0.5),
        chunk_delay_p99=told(delays, 0.99),
        send_delay_p99=milliseconds(result.send_delays, 0.99),
        client_behind=result.why_behind(),
        processor_us_by_stream={
            name: 1e6 * seconds / len(calls) for name, seconds in used.seconds_by_name.items()
        },
        waiting_by_process=dict(used.waiting_by_name),
        cores_of_others=used.cores_of_others,
        cores_stolen=used.cores_stolen,
        ends=dict(Counter(f"{call.end} {call.status}" for call in calls)),
    )
