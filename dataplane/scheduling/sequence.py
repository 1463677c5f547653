"""One token stream in the engine, and the one method that may change its status.

The picture that every part of scheduling shares: the tokens of a sequence, and how
many of them already have KV::

    | prompt tokens ............ | output tokens ....... |
    |<-- num_computed_tokens: has KV -->|<-- catch up -->|

A sequence *catches up*: each step computes some of the tokens between
`num_computed_tokens` and `num_tokens`. When it has computed them all, one more token is
selected, and that token has no KV yet. Prefill, a continued prefill, recomputation after
a preemption and decode differ only in how far behind the sequence is.

A sequence that decodes gets one token further with every step, as all that decode do. So it
is not told of each step: it *follows* a tick that they share (see `cohort`), and its counts
are what they lack plus the tick.
"""

from collections.abc import Sequence as ReadableSequence
from typing import TYPE_CHECKING

from dataplane.scheduling.compact_prompt import CompactPrompt
from dataplane.scheduling.sequence_status import (
    TRANSITIONS,
    SequenceStatus,
    SequenceStatusError,
)

if TYPE_CHECKING:
    from dataplane.scheduling.prefix_cache import Spot


__all__ = ["TRANSITIONS", "Sequence", "SequenceStatus", "SequenceStatusError", "Tick"]

_FINISHED = SequenceStatus.FINISHED


class Tick:
    """Counts the steps that the followers of one scheduler have made together."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


class Sequence:
    """One token stream. The scheduler owns everything but what it is made from.

    `prompt_token_ids` is a tuple, or a range or a `CompactPrompt` where the tokens stand for
    nothing but themselves. `script` is what the sequence will select, where that is known
    beforehand; it ends with it, and its output is kept as a count. `index` is the position within
    the request (`n > 1`); KV is only reused between sequences of one `isolation_key`. The limit may
    be changed while the sequence runs only where there is no script.

    One that is handed over begins elsewhere: another engine selected `num_handed_over_tokens` of
    its output, and KV of all tokens but the newest comes with it. It is decoding when it is
    admitted; where it loses its blocks, it is recomputed as any other.

    Raises ValueError for an empty prompt, an empty script, a script besides an output, a limit
    below one token, or an output of which nothing is left to select.
    """

    __slots__ = (
        "_num_computed",
        "_num_scripted",
        "_output",
        "_status",
        "block_table",
        "cache_node",
        "index",
        "is_paused",
        "isolation_key",
        "max_output_tokens",
        "num_cached_tokens",
        "num_handed_over_tokens",
        "num_preemptions",
        "num_prompt_tokens",
        "num_registered_blocks",
        "prompt_token_ids",
        "rank",
        "request_id",
        "script",
        "sequence_id",
        "tick",
    )

    def __init__(
        self,
        *,
        request_id: str,
        sequence_id: int,
        prompt_token_ids: ReadableSequence[int],
        max_output_tokens: int,
        index: int = 0,
        isolation_key: str = "",
        script: ReadableSequence[int] | None = None,
        output_token_ids: list[int] | None = None,
        num_handed_over_tokens: int = 0,
    ) -> None:
        self.request_id = request_id
        self.sequence_id = sequence_id
        """Unique among all sequences that a scheduler knows."""
        self.prompt_token_ids = prompt_token_ids
        self.num_prompt_tokens = len(prompt_token_ids)
        self.max_output_tokens = max_output_tokens
        self.index = index
        self.isolation_key = isolation_key
        self.script = script
        self.is_paused = False
        """It is in no step until its scheduler is told that it goes on; see Scheduler.pause."""
        self.rank = 0
        """Place in the order of arrival at a scheduler."""
        self.block_table: list[int] = []
        """Block k holds the KV of tokens [k * block_size, (k + 1) * block_size)."""
        self.num_cached_tokens = 0
        """Prompt tokens that the first admission spared: the prefix cache had them, or they came
        with a sequence that was handed over."""
        self.num_handed_over_tokens = num_handed_over_tokens
        self.num_preemptions = 0
        self.cache_node: Spot | None = None
        """Where the sequence's registered blocks end in the prefix cache."""
        self.num_registered_blocks = 0
        """Leading blocks that the prefix cache has looked at."""
        self.tick: Tick | None = None
        """What the sequence follows while it decodes."""
        self._status = SequenceStatus.WAITING
        self._output: list[int] = [] if output_token_ids is None else output_token_ids
        # Of a sequence that follows a tick: what is to be added to it.
        self._num_computed = 0
        self._num_scripted = num_handed_over_tokens
        self._check(script)
        if num_handed_over_tokens:
            self._check_handed_over(num_handed_over_tokens)

    def _check(self, script: ReadableSequence[int] | None) -> None:
        if not self.num_prompt_tokens:
            raise ValueError(
                f"request {self.request_id}: the prompt is empty; at least one token is needed"
            )
        if self.max_output_tokens < 1:
            raise ValueError(
                f"request {self.request_id}: max_output_tokens is {self.max_output_tokens}; "
                f"ask for at least 1"
            )
        if script is None:
            return
        if not script:
            raise ValueError(f"request {self.request_id}: the script is empty; nothing selects it")
        if self._output:
            raise ValueError(f"request {self.request_id}: a script says the output; give one")

    def _check_handed_over(self, num_tokens: int) -> None:
        if num_tokens != self.num_output_tokens or self.is_complete:
            raise ValueError(
                f"request {self.request_id}: {num_tokens} tokens are handed over, of "
                f"{self.num_output_tokens} selected and at most {self.output_limit}; all that "
                f"were selected are, and some must be left"
            )

    def __repr__(self) -> str:
        return (
            f"<Sequence {self.sequence_id} of {self.request_id}: {self._status}, "
            f"{self.num_prompt_tokens} prompt + {self.num_output_tokens} output tokens, "
            f"KV of {self.num_computed_tokens}>"
        )

    @property
    def status(self) -> SequenceStatus:
        """Changed by `move_to` alone."""
        return self._status

    @property
    def is_finished(self) -> bool:
        """Nothing more will be selected."""
        return self._status is _FINISHED

    @property
    def num_computed_tokens(self) -> int:
        """Tokens that have KV, counted from the first."""
        tick = self.tick
        return self._num_computed if tick is None else self._num_computed + tick.now

    @num_computed_tokens.setter
    def num_computed_tokens(self, num_tokens: int) -> None:
        tick = self.tick
        self._num_computed = num_tokens if tick is None else num_tokens - tick.now

    @property
    def num_output_tokens(self) -> int:
        """Tokens selected so far."""
        if self.script is None:
            return len(self._output)
        tick = self.tick
        return self._num_scripted if tick is None else self._num_scripted + tick.now

    @property
    def output_token_ids(self) -> list[int]:
        """The tokens selected so far; a copy, made now, where a script says them."""
        if self.script is None:
            return self._output
        return list(self.script[: self.num_output_tokens])

    @output_token_ids.setter
    def output_token_ids(self, token_ids: list[int]) -> None:
        if self.script is not None:
            raise ValueError(f"sequence {self.sequence_id}: its script says its output")
        self._output = token_ids

    @property
    def output_limit(self) -> int:
        """Tokens with which the sequence is complete."""
        limit = self.max_output_tokens
        return limit if self.script is None else min(limit, len(self.script))

    @property
    def is_complete(self) -> bool:
        """As many tokens were selected as the limit, or the script, allows."""
        return self.num_output_tokens >= self.output_limit

    @property
    def num_tokens(self) -> int:
        """Prompt and output together."""
        return self.num_prompt_tokens + self.num_output_tokens

    @property
    def num_tokens_behind(self) -> int:
        """Tokens without KV: what must be computed before another is selected."""
        return self.num_tokens - self.num_computed_tokens

    @property
    def is_decoding(self) -> bool:
        """Only the newest selected token lacks KV."""
        if self.tick is not None:
            return True
        num_output = self.num_output_tokens
        return num_output > 0 and self.num_prompt_tokens + num_output == self._num_computed + 1

    def token_at(self, position: int) -> int:
        """The token at `position`, prompt first. Raises IndexError outside [0, num_tokens)."""
        if not 0 <= position < self.num_tokens:
            raise IndexError(
                f"sequence {self.sequence_id} has {self.num_tokens} tokens, none at {position}"
            )
        num_prompt = self.num_prompt_tokens
        if position < num_prompt:
            return self.prompt_token_ids[position]
        return (self.script or self._output)[position - num_prompt]

    def tokens(self, start: int, stop: int) -> tuple[int, ...]:
        """The tokens at [start, stop). Raises IndexError outside [0, num_tokens]."""
        num_prompt = self.num_prompt_tokens
        if 0 <= start <= stop <= num_prompt:
            return tuple(self.prompt_token_ids[start:stop])
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(
                f"sequence {self.sequence_id} has {self.num_tokens} tokens, not [{start}, {stop})"
            )
        output = (self.script or self._output)[max(0, start - num_prompt) : stop - num_prompt]
        return (*self.prompt_token_ids[start:], *output)

    def num_same_tokens(self, other: "Sequence", start: int, stop: int) -> int:
        """How many tokens from `start` on are the same in `other`, up to `stop`.

        Raises IndexError where one of them has fewer.
        """
        mine, theirs = self.prompt_token_ids, other.prompt_token_ids
        at = start
        if isinstance(mine, CompactPrompt) and type(theirs) is type(mine):
            in_prompts = min(stop, self.num_prompt_tokens, other.num_prompt_tokens)
            if start < in_prompts:
                at += mine.num_same(theirs, start, in_prompts)
                if at < in_prompts:
                    return at - start
        wanted, there = self.tokens(at, stop), other.tokens(at, stop)
        if wanted == there:
            return stop - start
        differing = next(n for n, (a, b) in enumerate(zip(wanted, there, strict=True)) if a != b)
        return at + differing - start

    def select(self, token_id: int | None) -> None:
        """Append a token. None, and only of one that follows no tick: what the script says."""
        if self.script is None:
            if token_id is None:
                raise ValueError(f"sequence {self.sequence_id} has no script; which token is it?")
            self._output.append(token_id)
        else:
            self._num_scripted += 1

    def follow(self, tick: Tick) -> None:
        """From now on every tick computes one token, and selects one where a script says it."""
        self._num_computed -= tick.now
        self._num_scripted -= tick.now
        self.tick = tick

    def leave(self) -> None:
        """Follow no tick any more."""
        if self.tick is not None:
            self._num_computed += self.tick.now
            self._num_scripted += self.tick.now
            self.tick = None

    def move_to(self, status: SequenceStatus) -> None:
        """The only way to change the status. Raises SequenceStatusError, and changes nothing."""
        if status not in TRANSITIONS[self._status]:
            raise SequenceStatusError(self.sequence_id, self._status, status)
        self._status = status
