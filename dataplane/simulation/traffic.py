"""Synthetic traffic: who calls when, with how much, sharing what with whom.

Every property is drawn from a stream of its own, so that changing one, or leaving it out,
changes none of the others. What a call holds is drawn when it is made and never again.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from dataplane.simulation.arrivals import ArrivalProcess
from dataplane.simulation.call import Call, Caller
from dataplane.simulation.distributions import Choice, Distribution, draw_length
from dataplane.simulation.random_streams import random_stream
from dataplane.simulation.token_space import TokenSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefixes:
    """Beginnings that many prompts have in common, such as system prompts."""

    num_prefixes: int
    length: Distribution
    """Tokens; each prefix has one length for good. A prompt that is shorter is all prefix."""
    share: float = 1.0
    """Of the calls that begin with one."""
    skew: float = 0.0
    """0: all equally likely; 1: as Zipf found words to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Conversations: a turn begins with all that was said before."""

    num_turns: Distribution
    wait: Distribution
    """Seconds from an answer until the next turn arrives: a tool, or a person."""
    added: Distribution
    """Tokens that the next turn adds to prompt and answer before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficSpec:
    """One kind of traffic."""

    name: str
    """Names its random streams."""
    process: ArrivalProcess
    callers: Sequence[tuple[Caller, float]]
    """With their weights."""
    prompt: Distribution
    output: Distribution
    max_tokens: Distribution | None = None
    """None: no call names a limit."""
    num_sequences: Distribution | None = None
    """Answers that a call asks for, each as long as `output` says; None: one."""
    prefixes: SharedPrefixes | None = None
    turns: Turns | None = None
    starts_at: float = 0.0
    """Seconds."""
    ends_at: float | None = None
    """No call arrives from then on; None: as long as calls are asked for."""
    max_calls: int | None = None


class SyntheticTraffic:
    """Draws the calls of one `TrafficSpec`, one at a time."""

    def __init__(self, spec: TrafficSpec, seed: int, tokens: TokenSpace) -> None:
        def stream(what: str) -> random.Random:
            return random_stream(seed, "traffic", spec.name, what)

        self.spec = spec
        self.tokens = tokens
        self._times = spec.process.times(stream("arrivals"))
        self._callers = Choice(spec.callers)
        self._caller_stream = stream("callers")
        self._prompt_stream = stream("prompt")
        self._output_stream = stream("output")
        self._limit_stream = stream("max_tokens")
        self._sequences_stream = stream("num_sequences")
        self._further_stream = stream("further outputs")
        self._prefix_stream = stream("prefixes")
        self.turn_stream = stream("turns")
        self._prefixes = None if spec.prefixes is None else _draw_prefixes(spec, seed, tokens)
        self._num_calls = 0

    def next_call(self) -> tuple[float, Call] | None:
        """The next that arrives by itself; later turns come from their conversations."""
        spec = self.spec
        if spec.max_calls is not None and self._num_calls >= spec.max_calls:
            return None
        at = spec.starts_at + next(self._times)
        if spec.ends_at is not None and at >= spec.ends_at:
            return None
        self._num_calls += 1
        caller = self._callers.draw(self._caller_stream)
        num_prompt = draw_length(spec.prompt, self._prompt_stream)
        prefix = self._draw_prefix(num_prompt)
        call = self.tokens.make_call(
            caller,
            prefix,
            num_prompt,
            self.draw_output(),
            self.draw_limit(),
            self.draw_further_outputs(),
        )
        if spec.turns is not None:
            num_turns = draw_length(spec.turns.num_turns, self.turn_stream)
            if num_turns > 1:
                call.conversation = _Conversation(self, spec.turns, call, num_turns - 1)
        return at, call

    def draw_output(self) -> int:
        """What the model would say."""
        return draw_length(self.spec.output, self._output_stream)

    def draw_limit(self) -> int | None:
        """What the caller allows."""
        limit = self.spec.max_tokens
        return None if limit is None else draw_length(limit, self._limit_stream)

    def draw_further_outputs(self) -> Sequence[int]:
        """What it would say besides, of each further answer that is asked for."""
        asked = self.spec.num_sequences
        if asked is None:
            return ()
        num_further = draw_length(asked, self._sequences_stream) - 1
        return [draw_length(self.spec.output, self._further_stream) for _ in range(num_further)]

    def _draw_prefix(self, num_tokens: int) -> tuple[range, ...]:
        if self._prefixes is None or self.spec.prefixes is None:
            return ()
        if self._prefix_stream.random() >= self.spec.prefixes.share:
            return ()
        return (self._prefixes.draw(self._prefix_stream)[:num_tokens],)


def _draw_prefixes(spec: TrafficSpec, seed: int, tokens: TokenSpace) -> Choice[range]:
    shared = spec.prefixes
    assert shared is not None
    stream = random_stream(seed, "traffic", spec.name, "prefix lengths")
    return Choice(
        [
            (
                tokens.prefixes.of(f"{spec.name}/{number}", draw_length(shared.length, stream)),
                (number + 1) ** -shared.skew,
            )
            for number in range(shared.num_prefixes)
        ]
    )


class _Conversation:
    """The turns behind one call. All that was said stands before the next."""

    __slots__ = ("_call", "_num_left", "_traffic", "_turns")

    def __init__(self, traffic: SyntheticTraffic, turns: Turns, call: Call, num_left: int) -> None:
        self._traffic = traffic
        self._turns = turns
        self._call = call
        self._num_left = num_left

    def next_turns(self) -> Sequence[tuple[float, Call]]:
        if self._num_left == 0:
            return ()
        self._num_left -= 1
        traffic, before = self._traffic, self._call
        stream = traffic.turn_stream
        wait = max(0.0, self._turns.wait.draw(stream))
        added = draw_length(self._turns.added, stream)
        self._call = traffic.tokens.make_next_call(
            before,
            added,
            traffic.draw_output(),
            traffic.draw_limit(),
            traffic.draw_further_outputs(),
        )
        self._call.conversation = self
        return ((wait, self._call),)
