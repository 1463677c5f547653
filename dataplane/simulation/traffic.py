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
    """At most, later turns included; None: no bound. What faults add is added to it."""


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
        self._draws = _Draws(
            spec,
            turns=stream("turns"),
            outputs=stream("output"),
            limits=stream("max_tokens"),
            num_sequences=stream("num_sequences"),
            further_outputs=stream("further outputs"),
        )
        self._prefix_stream = stream("prefixes")
        self._seed = seed
        self._prefixes = None if spec.prefixes is None else _draw_prefixes(spec, seed, tokens)
        self._num_calls = 0

    def next_call(self) -> tuple[float, Call] | None:
        """The next that arrives by itself; later turns come from their conversations."""
        spec, draws = self.spec, self._draws
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
            draws.output(),
            draws.limit(),
            draws.further_outputs(),
        )
        if spec.turns is not None:
            num_turns = draw_length(spec.turns.num_turns, draws.turns)
            if num_turns > 1:
                call.conversation = _Conversation(self, draws, call, num_turns - 1)
        return at, call

    def count_turn(self) -> bool:
        """Another turn is to arrive; False where there were as many calls as there may be."""
        most = self.spec.max_calls
        if most is not None and self._num_calls >= most:
            return False
        self._num_calls += 1
        return True

    def draws_of(self, name: str) -> "_Draws":
        """Of somebody who is not of this traffic, and changes nothing of it."""
        stream = random_stream(self._seed, "traffic", self.spec.name, "like", name)
        return _Draws(
            self.spec,
            turns=stream,
            outputs=stream,
            limits=stream,
            num_sequences=stream,
            further_outputs=stream,
        )

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


class _Draws:
    """What calls hold: a stream for each part of it."""

    __slots__ = ("_further_outputs", "_limits", "_num_sequences", "_outputs", "_spec", "turns")

    def __init__(
        self,
        spec: TrafficSpec,
        *,
        turns: random.Random,
        outputs: random.Random,
        limits: random.Random,
        num_sequences: random.Random,
        further_outputs: random.Random,
    ) -> None:
        self.turns = turns
        self._spec = spec
        self._outputs = outputs
        self._limits = limits
        self._num_sequences = num_sequences
        self._further_outputs = further_outputs

    def output(self) -> int:
        """What the model would say."""
        return draw_length(self._spec.output, self._outputs)

    def limit(self) -> int | None:
        """What the caller allows."""
        limit = self._spec.max_tokens
        return None if limit is None else draw_length(limit, self._limits)

    def further_outputs(self) -> Sequence[int]:
        """What it would say besides, of each further answer that is asked for."""
        asked = self._spec.num_sequences
        if asked is None:
            return ()
        num_further = draw_length(asked, self._num_sequences) - 1
        return [draw_length(self._spec.output, self._further_outputs) for _ in range(num_further)]


class _Conversation:
    """The turns behind one call. All that was said stands before the next."""

    __slots__ = ("_call", "_draws", "_is_counted", "_num_left", "_traffic")

    def __init__(
        self,
        traffic: SyntheticTraffic,
        draws: _Draws,
        call: Call,
        num_left: int,
        is_counted: bool = True,
    ) -> None:
        self._traffic = traffic
        self._draws = draws
        self._call = call
        self._num_left = num_left
        self._is_counted = is_counted

    def next_turns(self) -> Sequence[tuple[float, Call]]:
        if self._num_left == 0 or (self._is_counted and not self._traffic.count_turn()):
            return ()
        self._num_left -= 1
        traffic, draws, before = self._traffic, self._draws, self._call
        turns = traffic.spec.turns
        assert turns is not None
        wait = max(0.0, turns.wait.draw(draws.turns))
        added = draw_length(turns.added, draws.turns)
        self._call = traffic.tokens.make_next_call(
            before, added, draws.output(), draws.limit(), draws.further_outputs()
        )
        self._call.conversation = self
        return ((wait, self._call),)

    def like(self, call: Call, name: str) -> "_Conversation":
        draws = self._traffic.draws_of(name)
        return _Conversation(self._traffic, draws, call, self._num_left, is_counted=False)
