"""The way of finished records to the control plane: over the disk, so that none waits for it.

`put` appends a record to a segment file and returns. `run` sends what is there in batches,
oldest first, and waits, longer each time, while the control plane is away. What a gateway
left when it died is sent by its successor under the dead one's id. Disk use is bounded: the
oldest segment goes first, and what went is counted and told with every batch. A disk that takes
nothing more costs no record yet: some are held in memory, and sent from there or written later.

    put -> [segment][segment][segment*] -> run -> {"gateway_id", "num_lost", "records": [...]}
     |      ^ dropped when over max_bytes    |
     +-> [held, while the disk is full] -----+
          ^ the oldest dropped when over max_held_bytes
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec
import structlog

from dataplane.gateway.held_records import MAX_HELD_BYTES, HeldRecords, HeldSegment
from dataplane.gateway.ownership import OwnedDirectory, claim, claim_abandoned, claim_new
from dataplane.gateway.segment import SEGMENT_GLOB, Segment
from dataplane.record import RequestRecord, encode_record

Send = Callable[[bytes], Awaitable[None]]
"""Delivers one batch of JSON. Raises httpx.HTTPError when it was not stored: a status that
blames the content sets the record at fault aside, anything else is tried again."""

_MAX_SEGMENT_BYTES = 2**20
_SEGMENTS_IN_BOUND = 8
_MAX_BATCH_BYTES = 2 * 2**20
_MAX_REFUSED_BYTES = 2**20
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 15.0
_GATHER_SECONDS = 0.25
"""From one batch to the next, unless more than a batch waits: a request for each record, and a
file that is made and removed for it, would cost the event loop more than the record."""
_REFUSED_FILE = "refused.jsonl"
_LOST_FILE = "num_lost"
_STATUSES_THAT_BLAME_CONTENT = frozenset({400, 413, 422})
# Other refusals (401, 404, 429, ...) are about the way there, and may be put right.


class RecordSpool:
    """Owned by one event loop. `send` None: nothing is sent, records stay on disk."""

    def __init__(
        self,
        directory: Path,
        gateway_id: str,
        send: Send | None,
        max_bytes: int = 256 * 2**20,
        max_batch: int = 200,
        max_held_bytes: int = MAX_HELD_BYTES,
    ) -> None:
        self._directory = directory
        self._gateway_id = gateway_id
        self._send = send
        self._max_bytes = max_bytes
        self._max_batch = max_batch
        self._max_segment_bytes = max(1, min(_MAX_SEGMENT_BYTES, max_bytes // _SEGMENTS_IN_BOUND))
        self._log = structlog.get_logger(__name__)
        self._owned: dict[str, OwnedDirectory] = {}
        self._segments: list[Segment] = []  # oldest first
        self._open: dict[str, Segment] = {}  # by gateway id, the one that is appended to
        self._held = HeldRecords(max_held_bytes)  # what the disk did not take
        self._in_flight: Segment | HeldSegment | None = None
        self._lost: dict[str, int] = {}
        self._untold: set[str] = set()  # gateway ids whose losses no batch has told yet
        self._num_segments_made = 0
        self._has_records = asyncio.Event()
        self._sending = asyncio.Lock()
        self.num_refused = 0
        """Records the control plane would never take; they also count as lost."""
        self._own(gateway_id)
        self._adopt(_read_abandoned(directory))

    @property
    def num_spooled(self) -> int:
        """Records that the control plane has not confirmed, on disk or held in memory."""
        return sum(segment.num_records for segment in self._waiting())

    @property
    def num_held(self) -> int:
        """Of these, in memory alone, because the disk did not take them."""
        return self._held.num_records

    @property
    def num_lost(self) -> int:
        """Records of this gateway that will never arrive, since it started."""
        return self._lost.get(self._gateway_id, 0)

    @property
    def num_bytes(self) -> int:
        """On disk, in segments."""
        return sum(segment.num_bytes for segment in self._segments)

    def put(self, record: RequestRecord) -> None:
        """Keep a record until it is sent. Never waits for the network, never raises for the disk.

        A record of a dead predecessor (a lost one) is sent under the predecessor's id.
        """
        line = encode_record(record)
        try:
            self._write_held(record.gateway_id)
            self._segment_for(record.gateway_id, len(line)).append(line)
        except OSError as error:
            self._hold(record.gateway_id, line, error)
        self._keep_within_bound()
        self._has_records.set()

    async def adopt_abandoned(self) -> None:
        """Take over what processes that are gone have left, to send it in their names.

        It may be much, and whoever serves goes on meanwhile: a thread reads it.
        """
        for gateway_id in list(self._owned):
            self._leave_if_done(gateway_id)
        self._adopt(await asyncio.to_thread(_read_abandoned, self._directory))

    def _adopt(self, left: list["_Left"]) -> None:
        adopted = [segment for each in left for segment in self._join(each)]
        adopted.sort(key=lambda segment: segment.path.stat().st_mtime_ns)
        self._segments = adopted + self._segments
        numbers = [int(segment.path.stem) for segment in adopted]
        self._num_segments_made = max(self._num_segments_made, *numbers, 0)
        if adopted or self._untold:
            self._has_records.set()

    def can_speak_for(self, gateway_id: str) -> bool:
        """Records of this process that is gone may be `put` here: nobody else has its files."""
        owned = self._owned.get(gateway_id) or claim(self._directory / gateway_id)
        if owned is not None:
            self._owned[gateway_id] = owned
        return owned is not None

    async def run(self) -> None:
        """Send records as they come, until cancelled."""
        wait = _FIRST_WAIT_SECONDS
        while True:
            await self._has_records.wait()
            if self._send is None:
                await asyncio.Event().wait()
            try:
                if not await self._send_next():
                    self._has_records.clear()
                elif self.num_spooled < self._max_batch:
                    await asyncio.sleep(_GATHER_SECONDS)
                wait = _FIRST_WAIT_SECONDS
            except (httpx.HTTPError, OSError) as error:
                self._log.info("records wait in the spool", why=repr(error), num=self.num_spooled)
                await asyncio.sleep(wait * random.uniform(0.5, 1.0))
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    async def flush(self, timeout_seconds: float) -> bool:
        """Send all there is; False when some of it is still here after `timeout_seconds`."""
        if self._send is None:
            return self.num_spooled == 0
        try:
            async with asyncio.timeout(timeout_seconds):
                while await self._try_next():
                    pass
        except TimeoutError:
            return False
        return True

    async def _try_next(self) -> bool:
        try:
            return await self._send_next()
        except (httpx.HTTPError, OSError):
            await asyncio.sleep(_FIRST_WAIT_SECONDS)
            return True

    def close(self) -> None:
        """Let go of the files; what was not sent stays for a successor, as far as the disk takes
        it."""
        self._write_all_held()
        for segment in self._segments:
            segment.close()
        for gateway_id, owned in self._owned.items():
            if (
                any(s.gateway_id == gateway_id for s in self._segments)
                or gateway_id in self._untold
            ):
                owned.release()
            else:
                owned.remove()
        self._owned.clear()

    # --- sending ------------------------------------------------------------------------

    async def _send_next(self) -> bool:
        """Send one batch; False when there was nothing to send."""
        assert self._send is not None
        async with self._sending:
            segment = next((s for s in self._waiting() if s.num_records > 0), None)
            if segment is None:
                return await self._tell_losses()
            self._in_flight = segment
            try:
                lines = segment.read_unsent(self._max_batch, _MAX_BATCH_BYTES)
                await self._send_or_refuse(segment, lines)
            finally:
                self._in_flight = None
            if segment.num_records == 0:
                self._retire(segment)
            return True

    async def _send_or_refuse(self, segment: Segment | HeldSegment, lines: list[bytes]) -> None:
        """Send a batch; of a refused one, halve by halve, all but the record that is at fault."""
        try:
            await self._send_batch(segment.gateway_id, lines)
        except httpx.HTTPStatusError as error:
            if error.response.status_code not in _STATUSES_THAT_BLAME_CONTENT:
                raise
            if len(lines) > 1:
                middle = len(lines) // 2
                await self._send_or_refuse(segment, lines[:middle])
                await self._send_or_refuse(segment, lines[middle:])
                return
            self._set_aside(segment.gateway_id, lines[0], repr(error))
        segment.mark_sent(lines)

    async def _send_batch(self, gateway_id: str, lines: list[bytes]) -> None:
        assert self._send is not None
        num_lost = self._lost.get(gateway_id, 0)
        head = msgspec.json.encode({"gateway_id": gateway_id, "num_lost": num_lost})
        await self._send(head[:-1] + b',"records":[' + b",".join(lines) + b"]}")
        if self._lost.get(gateway_id, 0) == num_lost:
            self._untold.discard(gateway_id)
            self._leave_if_done(gateway_id)

    async def _tell_losses(self) -> bool:
        """With no record left to carry it, a batch of its own says what was lost."""
        gateway_id = next(iter(self._untold), None)
        if gateway_id is None:
            return False
        await self._send_batch(gateway_id, [])
        return True

    def _set_aside(self, gateway_id: str, line: bytes, why: str) -> None:
        self.num_refused += 1
        self._lose(gateway_id, 1)
        self._log.error("record set aside: the control plane refuses it", why=why)
        path = self._directory / _REFUSED_FILE
        try:
            if not path.exists() or path.stat().st_size < _MAX_REFUSED_BYTES:
                with path.open("ab") as file:
                    file.write(line + b"\n")
        except OSError as error:
            self._log.warning("the refused record could not be kept", error=str(error))

    # --- the disk -----------------------------------------------------------------------

    def _own(self, gateway_id: str) -> OwnedDirectory:
        owned = self._owned.get(gateway_id) or claim_new(self._directory / gateway_id)
        if owned is None:
            raise RuntimeError(
                f"another process uses the gateway id {gateway_id} in {self._directory}: "
                "ids are never reused, start this gateway with a fresh one"
            )
        self._owned[gateway_id] = owned
        return owned

    def _join(self, left: "_Left") -> list[Segment]:
        gateway_id = left.owned.path.name
        if not left.num_lost and not any(segment.num_records for segment in left.segments):
            left.owned.remove()
            return []
        self._owned[gateway_id] = left.owned
        if left.num_lost:  # told again when it was told before: it is a total
            self._lost[gateway_id] = left.num_lost
            self._untold.add(gateway_id)
        return left.segments

    def _segment_for(self, gateway_id: str, num_bytes: int) -> Segment:
        segment = self._open.get(gateway_id)
        if segment is not None and segment.num_bytes + num_bytes <= self._max_segment_bytes:
            return segment
        if segment is not None:
            segment.close()
            del self._open[gateway_id]  # before what may fail: nobody appends to a closed one
        owned = self._own(gateway_id)
        self._num_segments_made += 1
        path = owned.path / f"{self._num_segments_made:012d}.records"
        segment = Segment.create(gateway_id, path)
        self._open[gateway_id] = segment
        self._segments.append(segment)
        return segment

    def _waiting(self) -> Iterator[Segment | HeldSegment]:
        """All that is to be sent; what is held is newer than what is on disk."""
        yield from self._segments
        yield from self._held

    def _hold(self, gateway_id: str, line: bytes, error: OSError) -> None:
        """Keep in memory what the disk does not take; over the bound the oldest there goes."""
        if not self.num_held:
            self._log.warning("records are held: the spool cannot be written", error=str(error))
        for loser in self._held.hold(gateway_id, line, self._in_flight):
            self._lose(loser, 1)
            self._log.warning("record lost: neither disk nor memory has room", error=str(error))

    def _write_held(self, gateway_id: str) -> None:
        """What is held goes to the disk, before what is newer. Raises OSError while that takes
        none; what is being sent just now stays where it is."""
        held = self._held.find(gateway_id)
        if held is None or held is self._in_flight:
            return
        while lines := held.read_unsent(1, 1):
            self._segment_for(gateway_id, len(lines[0])).append(lines[0])
            held.mark_sent(lines)
        self._held.remove(held)

    def _write_all_held(self) -> None:
        """At the end, all of them: what does not fit dies with this process, and is counted."""
        self._in_flight = None
        for held in self._held:
            try:
                self._write_held(held.gateway_id)
            except OSError as error:
                num = held.num_records
                self._lose(held.gateway_id, num)
                self._log.error("held records lost at the end", num=num, error=str(error))

    def _keep_within_bound(self) -> None:
        while self.num_bytes > self._max_bytes:
            oldest = next((s for s in self._segments if s is not self._in_flight), None)
            if oldest is None:
                return
            self._lose(oldest.gateway_id, oldest.num_records)
            self._log.warning("records lost: the spool is full", num=oldest.num_records)
            self._retire(oldest)

    def _retire(self, segment: Segment | HeldSegment) -> None:
        if isinstance(segment, HeldSegment):
            self._held.remove(segment)
            self._leave_if_done(segment.gateway_id)
            return
        if self._open.get(segment.gateway_id) is segment:
            del self._open[segment.gateway_id]
        self._segments.remove(segment)
        segment.delete()
        self._leave_if_done(segment.gateway_id)

    def _leave_if_done(self, gateway_id: str) -> None:
        """Of a process that is gone, nothing is kept once all it left is delivered."""
        is_needed = (
            gateway_id == self._gateway_id
            or gateway_id in self._untold
            or any(segment.gateway_id == gateway_id for segment in self._waiting())
        )
        if not is_needed and (owned := self._owned.pop(gateway_id, None)) is not None:
            owned.remove()

    def _lose(self, gateway_id: str, num: int) -> None:
        self._lost[gateway_id] = self._lost.get(gateway_id, 0) + num
        self._untold.add(gateway_id)
        self._has_records.set()
        try:
            (self._directory / gateway_id / _LOST_FILE).write_text(str(self._lost[gateway_id]))
        except OSError as error:
            self._log.warning("the count of lost records could not be kept", error=str(error))


@dataclass(frozen=True, slots=True)
class _Left:
    """What one process left when it ended."""

    owned: OwnedDirectory
    segments: list[Segment]
    num_lost: int


def _read_abandoned(directory: Path) -> list[_Left]:
    """Own and read all that is abandoned under `directory`."""
    return [
        _Left(
            owned=owned,
            segments=[Segment.adopt(owned.path.name, at) for at in owned.path.glob(SEGMENT_GLOB)],
            num_lost=_read_count(owned.path / _LOST_FILE),
        )
        for owned in claim_abandoned(directory)
    ]


def _read_count(path: Path) -> int:
    text = path.read_text() if path.exists() else ""
    return int(text) if text.isdecimal() else 0
