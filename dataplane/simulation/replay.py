"""Recorded traffic, again: when each call came, how long it was, and what it shared.

A trace is JSON lines. A line is a record of ours, as `pilothouse requests` and the spool have it,
or an entry with these fields:

    at                 seconds; only differences mean something
    prompt_tokens, output_tokens
    max_tokens         optional: the caller's limit
    tenant, class      optional
    is_stream          optional, true
    prefix_hashes      optional: of each `prefix_block` tokens of the prompt, from its first
    id                 optional: what `after` of another names
    after, tool_wait   optional: this call comes `tool_wait` seconds after that one's answer

The class of a recorded request is told to the policy by a header, since a policy decides on what
it sees: `match: 'request.headers["x-class"] == "batch"'`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dataplane.simulation.call import Call, Caller
from dataplane.simulation.clients import PATIENT, ClientBehaviour
from dataplane.simulation.token_space import TokenSpace

DEFAULT_PREFIX_BLOCK = 512
MAX_TOKENS = 10_000_000
"""Of a prompt, an answer or a limit, as everywhere in a scenario."""


_REMEDY = "a line is a record, or an entry with at, prompt_tokens and output_tokens"


class TraceError(ValueError):
    """A line of a trace that says no call; names file, line and remedy."""


class TraceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a trace."""

    at: float
    prompt_tokens: int
    output_tokens: int
    max_tokens: int | None = None
    tenant: str = "default"
    request_class: str | None = msgspec.field(name="class", default=None)
    is_stream: bool = True
    prefix_hashes: tuple[str | int, ...] = ()
    id: str | int | None = None
    after: str | int | None = None
    tool_wait: float = 0.0

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "output_tokens"):
            number = getattr(self, name)
            if not 1 <= number <= MAX_TOKENS:
                raise ValueError(f"{name} is {number}; it must be from 1 to {MAX_TOKENS}")
        if self.max_tokens is not None and not 1 <= self.max_tokens <= MAX_TOKENS:
            raise ValueError(
                f"max_tokens is {self.max_tokens}; leave it out or ask for 1 to {MAX_TOKENS}"
            )
        if self.tool_wait < 0:
            raise ValueError(f"tool_wait is {self.tool_wait}; it must not be negative")


def read_trace(path: Path) -> list[TraceEntry]:
    """In order of arrival. A recorded request without lengths, one that was lost or invalid, is
    left out: nobody knows what it asked for. Raises TraceError and OSError."""
    with path.open("rb") as lines:
        return parse_trace(lines, str(path))


def parse_trace(lines: Iterable[bytes], file: str) -> list[TraceEntry]:
    """As `read_trace`; `file` is what errors call it."""
    numbered: list[tuple[int, TraceEntry]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = _parse(msgspec.json.decode(line))
        except RecursionError as error:
            raise TraceError(
                f"{file}:{number}: its values lie within each other too deeply; {_REMEDY}"
            ) from error
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
            raise TraceError(f"{file}:{number}: {error}; {_REMEDY}") from error
        if entry is not None:
            numbered.append((number, entry))
    _check_turns(numbered, file)
    return sorted((entry for _, entry in numbered), key=lambda entry: entry.at)


def _parse(data: Any) -> TraceEntry | None:
    if not isinstance(data, dict):
        raise ValueError("it is no object")
    if "arrived_at_unix_ns" not in data:
        return msgspec.convert(data, TraceEntry)
    if not data.get("num_prompt_tokens") or not data.get("num_output_tokens"):
        return None
    arrived_at, most = data["arrived_at_unix_ns"], data.get("max_output_tokens")
    if not isinstance(arrived_at, int) or not 0 <= arrived_at < 2**63:
        raise ValueError("arrived_at_unix_ns is no number of nanoseconds since 1970")
    return msgspec.convert(
        {
            # To the microsecond: as a float, nanoseconds since 1970 would not be told apart.
            "at": arrived_at // 1000 / 1e6,
            "prompt_tokens": data["num_prompt_tokens"],
            "output_tokens": data["num_output_tokens"],
            # Clients do ask for more than anybody answers.
            "max_tokens": min(most, MAX_TOKENS) if isinstance(most, int) else most,
            "tenant": data.get("tenant") or "default",
            "class": data.get("request_class"),
            "is_stream": data.get("is_stream", True),
            "id": data.get("request_id"),
        },
        TraceEntry,
    )


def _check_turns(numbered: Iterable[tuple[int, TraceEntry]], file: str) -> None:
    """Each call is played once: ids are of one line, and what comes after what has a beginning."""
    numbered = list(numbered)
    line_of = dict[str | int, int]()
    for number, entry in numbered:
        if entry.id is not None and line_of.setdefault(entry.id, number) != number:
            raise TraceError(
                f"{file}:{number}: id {entry.id!r} is that of line {line_of[entry.id]} too; give "
                f"each call an id of its own"
            )
    before = dict[int, int]()
    for number, entry in numbered:
        if entry.after is None:
            continue
        if entry.after not in line_of:
            raise TraceError(
                f"{file}:{number}: a call comes after {entry.after!r}, which no line has as id"
            )
        before[number] = line_of[entry.after]
    _check_begins(before, file)


def _check_begins(before: Mapping[int, int], file: str) -> None:
    """`before` says of each line that waits for which one it does."""
    sound = set[int]()
    for number in before:
        chain, at = dict[int, None](), number
        while at in before and at not in sound and at not in chain:
            chain[at] = None
            at = before[at]
        if at in chain:
            ring = list(chain)[list(chain).index(at) :]
            lines = ", ".join(map(str, sorted(ring)))
            raise TraceError(
                f"{file}:{min(ring)}: the calls of lines {lines} wait for each other, and none "
                f"begins; leave out `after` of the first one"
                if len(ring) > 1
                else f"{file}:{at}: a call waits for its own answer; leave out its `after`"
            )
        sound.update(chain)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySpec:
    """How a trace is played."""

    entries: tuple[TraceEntry, ...]
    """In order of arrival."""
    starts_at: float = 0.0
    speed: float = 1.0
    """2: twice as fast; lengths and tool waits stay."""
    client: ClientBehaviour = PATIENT
    class_header: str | None = None
    """The header that tells the recorded class, in lower case; None: nothing does."""
    prefix_block: int = DEFAULT_PREFIX_BLOCK
    """Tokens that each of `prefix_hashes` stands for."""

    def begins_at(self, entry: TraceEntry) -> float:
        """When the call of an entry that waits for no answer comes, in seconds of the run."""
        return self.starts_at + (entry.at - self.entries[0].at) / self.speed

    def find_late(self, duration: float) -> "LateCalls | None":
        """Those that do not come before a run of so many seconds is over, with all that wait for
        their answers; None: there are none. Which others are answered too late for the turns
        behind them, the run itself shows."""
        begins = [entry for entry in self.entries if entry.after is None]
        late = [entry for entry in begins if self.begins_at(entry) >= duration]
        if not late:
            return None
        turns_after = _turns_after(self.entries)
        last_at = max(map(self.begins_at, late))
        num_calls = 0
        while late:
            entry = late.pop()
            num_calls += 1
            late += () if entry.id is None else turns_after.get(entry.id, ())
        return LateCalls(num_calls=num_calls, last_at=last_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateCalls:
    """Calls that a run is over too early for."""

    num_calls: int
    last_at: float
    """When the last of them comes that waits for no answer, in seconds of the run."""


def _turns_after(entries: Iterable[TraceEntry]) -> dict[str | int, list[TraceEntry]]:
    """By the id of the call whose answer they wait for."""
    turns: dict[str | int, list[TraceEntry]] = {}
    for entry in entries:
        if entry.after is not None:
            turns.setdefault(entry.after, []).append(entry)
    return turns


class ReplayedTraffic:
    """The calls of a trace. Turns that wait for an answer come from their conversations."""

    def __init__(self, spec: ReplaySpec, tokens: TokenSpace) -> None:
        self.spec = spec
        self._tokens = tokens
        self._callers: dict[tuple[str, str | None, bool], Caller] = {}
        self._turns_after = _turns_after(spec.entries)
        self._begins = [entry for entry in spec.entries if entry.after is None]
        self._next = 0

    def next_call(self) -> tuple[float, Call] | None:
        """The next that waits for no answer."""
        if self._next >= len(self._begins):
            return None
        entry = self._begins[self._next]
        self._next += 1
        return self.spec.begins_at(entry), self.make(entry)

    def make(self, entry: TraceEntry) -> Call:
        """The call of one entry."""
        call = self._tokens.make_call(
            self._caller(entry),
            self._prefix(entry),
            entry.prompt_tokens,
            entry.output_tokens,
            entry.max_tokens,
        )
        turns = self._turns_after.get(entry.id) if entry.id is not None else None
        if turns:
            call.conversation = _RecordedTurns(self, turns)
        return call

    def make_behind(self, before: Call, entry: TraceEntry) -> Call:
        """A call as that of an entry, behind another one than the recorded."""
        num_shared = len(entry.prefix_hashes) * self.spec.prefix_block
        call = self._tokens.make_call(
            before.caller,
            self._tokens.said_in(before, num_shared),
            entry.prompt_tokens,
            entry.output_tokens,
            entry.max_tokens,
        )
        turns = self._turns_after.get(entry.id) if entry.id is not None else None
        if turns:
            call.conversation = _TurnsLikeRecorded(self, turns, call)
        return call

    def _caller(self, entry: TraceEntry) -> Caller:
        key = (entry.tenant, entry.request_class, entry.is_stream)
        caller = self._callers.get(key)
        if caller is None:
            headers: Mapping[str, str] = {}
            if self.spec.class_header is not None and entry.request_class is not None:
                headers = {self.spec.class_header: entry.request_class}
            caller = self._callers[key] = Caller(
                tenant=entry.tenant,
                client=self.spec.client,
                headers=headers,
                is_stream=entry.is_stream,
            )
        return caller

    def _prefix(self, entry: TraceEntry) -> tuple[range, ...]:
        of = self._tokens.prefixes.of
        return tuple(of(each, self.spec.prefix_block) for each in entry.prefix_hashes)


class _RecordedTurns:
    """What came after one answer, one turn after the other."""

    __slots__ = ("_traffic", "_turns")

    def __init__(self, traffic: ReplayedTraffic, turns: list[TraceEntry]) -> None:
        self._traffic = traffic
        self._turns = turns

    def next_turns(self) -> list[tuple[float, Call]]:
        return [(turn.tool_wait, self._traffic.make(turn)) for turn in self._turns]

    def like(self, call: Call, name: str) -> "_TurnsLikeRecorded":
        return _TurnsLikeRecorded(self._traffic, self._turns, call)


class _TurnsLikeRecorded:
    """As long as those that were recorded, behind a call that was not: what a turn shared with
    others, it shares with the call before it."""

    __slots__ = ("_before", "_traffic", "_turns")

    def __init__(self, traffic: ReplayedTraffic, turns: list[TraceEntry], before: Call) -> None:
        self._traffic = traffic
        self._turns = turns
        self._before = before

    def next_turns(self) -> list[tuple[float, Call]]:
        return [
            (turn.tool_wait, self._traffic.make_behind(self._before, turn)) for turn in self._turns
        ]

    def like(self, call: Call, name: str) -> "_TurnsLikeRecorded":
        return _TurnsLikeRecorded(self._traffic, self._turns, call)
