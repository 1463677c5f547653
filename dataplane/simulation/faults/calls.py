"""Faults of traffic, and the source of calls that they change.

Each changes a call, or when it comes, or how its client behaves. Whether a call is hit is drawn
by its number in the traffic, so what a stronger fault changes includes what a weaker one does.
"""

import copy
import heapq
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile

from dataplane.simulation.call import Call, CallSource, Conversation
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.joined_tokens import JoinedTokens, joined, parts_of

_FIRST_FRESH = 2**80
"""Behind all token ids that a `TokenSpace` gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFault(Fault):
    """A fault of some calls; without `tenants` and `classes`, of all."""

    tenants: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    share: float = 1.0
    """Of those calls that are hit."""

    def is_of(self, call: Call, class_name: str | None) -> bool:
        """Whether it is about such calls. `class_name` None: nobody knows its class."""
        if self.tenants and call.caller.tenant not in self.tenants:
            return False
        return not self.classes or class_name in self.classes

    def takes(self, name: str) -> bool:
        """Whether the call of that name is in the share."""
        return self.share >= 1 or self.draw("share", name) < self.share

    def change(self, call: Call, name: str, tokens: "FreshTokens") -> None:
        """Change a call that is hit. Nothing, where a fault is about something else."""

    def delay(self, at: float) -> float:
        """Seconds by which a call that would come at `at` comes later."""
        return 0.0

    def num_copies(self, name: str) -> int:
        """How many more calls like this one come."""
        return 0


class FreshTokens:
    """Gives tokens that nobody has had; `is_told_apart` False: nobody compares prompts."""

    def __init__(self, is_told_apart: bool) -> None:
        self.is_told_apart = is_told_apart
        self._next = _FIRST_FRESH

    def take(self, num_tokens: int) -> range:
        """So many."""
        start = self._next
        self._next = start + num_tokens
        return range(start, self._next)

    def begun_anew(self, prompt: Sequence[int]) -> Sequence[int]:
        """A prompt as long as `prompt` whose first token is another: nothing of it is cached."""
        if not self.is_told_apart or not prompt:
            return prompt
        return joined((self.take(1), *_parts(prompt, 1)))

    def longer(self, prompt: Sequence[int], num_added: int) -> Sequence[int]:
        """`prompt` with so many tokens behind it."""
        if not self.is_told_apart:
            return range(len(prompt) + num_added)
        return joined((*_parts(prompt, 0), self.take(num_added)))

    def like(self, prompt: Sequence[int], shared: Set[int]) -> Sequence[int]:
        """As long, with the beginning that others share, and other tokens behind it. `shared`
        holds the first token of each part that others have had."""
        if not self.is_told_apart:
            return prompt
        parts = _parts(prompt, 0)
        kept = list(takewhile(lambda part: part.start in shared, parts))
        return joined((*kept, self.take(len(prompt) - sum(map(len, kept)))))

    def answered_like(self, answer: range) -> range:
        """As long an answer, which is not like another."""
        return self.take(len(answer)) if self.is_told_apart else answer


def _parts(prompt: Sequence[int], start: int) -> list[range]:
    assert isinstance(prompt, range | JoinedTokens)
    parts = []
    for part in parts_of(prompt):
        parts.append(part[min(start, len(part)) :])
        start = max(0, start - len(part))
    return parts


class FaultyCalls:
    """A CallSource: that of others, with what the faults make of it. Later turns are changed too.

    `class_of` tells the class that a call will have, where a fault asks for one; `clock` is the
    timeline. Nobody asks for calls from `until` on, however late a fault lets others come.
    """

    def __init__(
        self,
        source: CallSource,
        faults: Sequence[CallFault],
        *,
        clock: Callable[[], float],
        is_told_apart: bool = True,
        class_of: Callable[[Call], str | None] | None = None,
        until: float = math.inf,
    ) -> None:
        self._source = source
        self._until = until
        self._faults = faults
        self._clock = clock
        self._tokens = FreshTokens(is_told_apart)
        self._class_of = class_of if any(fault.classes for fault in faults) else None
        self._to_come: list[tuple[float, int, Call]] = []
        self._num_put = 0
        self._num_calls = 0
        self._pulled_to = -math.inf
        self._begun: set[int] = set()
        """The first token of each part of a prompt so far that others may share: those of prefixes
        are negative (see `joined_tokens`)."""

    def next_call(self) -> tuple[float, Call] | None:
        """In order of the times that the faults have left."""
        # Nothing comes earlier than it would have: what is not pulled yet comes behind.
        while not self._to_come or self._to_come[0][0] > self._pulled_to:
            pulled = self._source.next_call()
            if pulled is None or pulled[0] >= self._until:
                self._pulled_to = math.inf
                break
            self._pulled_to = pulled[0]
            self._take(*pulled)
        if not self._to_come:
            return None
        at, _, call = heapq.heappop(self._to_come)
        return at, call

    def change(self, at: float, call: Call, name: str) -> tuple[float, Call]:
        """What the faults that are active at `at` make of a call, and how much later it comes.

        One with turns behind it is copied: they are built on the prompt and the caller that it
        had, and are changed once, as they come. What was answered stands in them as it was said.
        """
        later, changed = 0.0, call if call.conversation is None else copy.copy(call)
        for fault in self._active(at, call, name):
            fault.change(changed, name, self._tokens)
            later += fault.delay(at + later)
        if call.conversation is not None:
            call.answer, call.max_tokens = changed.answer, changed.max_tokens
            changed.conversation = FaultyConversation(self, call.conversation, name)
        return later, changed

    def now(self) -> float:
        """The timeline's."""
        return self._clock()

    def _take(self, at: float, call: Call) -> None:
        name = str(self._num_calls)
        self._num_calls += 1
        num_copies = sum(fault.num_copies(name) for fault in self._active(at, call, name))
        names = [f"{name}+{number}" for number in range(1, num_copies + 1)]
        calls = {name: call} | {each: self._copy(call, each) for each in names}
        self._begun.update(part.start for part in _parts(call.prompt, 0) if part.start < 0)
        for each_name, each in calls.items():
            later, changed = self.change(at, each, each_name)
            self._put(at + later, changed)

    def _active(self, at: float, call: Call, name: str) -> list[CallFault]:
        active = [fault for fault in self._faults if fault.is_active(at)]
        if not active:
            return active
        class_name = None if self._class_of is None else self._class_of(call)
        return [f for f in active if f.is_of(call, class_name) and f.takes(name)]

    def _copy(self, call: Call, name: str) -> Call:
        """One like it, which shares what it does, with as many turns behind it."""
        like = Call(
            call.caller,
            self._tokens.like(call.prompt, self._begun),
            self._tokens.answered_like(call.answer),
            call.max_tokens,
            further_answers=tuple(map(self._tokens.answered_like, call.further_answers)),
        )
        if call.conversation is not None:
            like.conversation = call.conversation.like(like, name)
        return like

    def _put(self, at: float, call: Call) -> None:
        self._num_put += 1
        heapq.heappush(self._to_come, (at, self._num_put, call))


class FaultyConversation:
    """The turns behind a call, changed as calls are. They come when they come."""

    def __init__(self, calls: FaultyCalls, inner: Conversation, name: str) -> None:
        self._calls = calls
        self._inner = inner
        self._name = name
        self._num_turns = 0

    def next_turns(self) -> Sequence[tuple[float, Call]]:
        """As the conversation has them; a fault is active or not when they arrive."""
        turns = []
        for wait, call in self._inner.next_turns():
            self._num_turns += 1
            at = self._calls.now() + wait
            later, changed = self._calls.change(at, call, f"{self._name}.{self._num_turns}")
            turns.append((wait + later, changed))
        return turns

    def like(self, call: Call, name: str) -> "FaultyConversation":
        """Behind another call, and changed as the turns of that are."""
        return FaultyConversation(self._calls, self._inner.like(call, name), name)
