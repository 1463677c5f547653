"""One token stream in the engine, and the one method that may change its status.

The picture that every part of scheduling shares: the tokens of a sequence, and how
many of them already have KV::

    | prompt tokens ............ | output tokens ....... |
    |<-- num_computed_tokens: has KV -->|<-- catch up -->|

A sequence *catches up*: each step computes some of the tokens between
`num_computed_tokens` and `num_tokens`. When it has computed them all, one more token is
selected, and that token has no KV yet. Prefill, a continued prefill, recomputation after
a preemption and decode differ only in how far behind the sequence is.
"""

from collections.abc import Sequence as ReadableSequence
from dataclasses import dataclass, field
from enum import StrEnum


class SequenceStatus(StrEnum):
    """Where a sequence stands."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    """Lost its blocks and waits to be computed again; its output is kept."""
    FINISHED = "finished"
    """Nothing more is selected. It may still hold blocks until it is retired."""


# What is not listed here cannot happen.
TRANSITIONS: dict[SequenceStatus, frozenset[SequenceStatus]] = {
    SequenceStatus.WAITING: frozenset({SequenceStatus.RUNNING, SequenceStatus.FINISHED}),
    SequenceStatus.RUNNING: frozenset({SequenceStatus.PREEMPTED, SequenceStatus.FINISHED}),
    SequenceStatus.PREEMPTED: frozenset({SequenceStatus.RUNNING, SequenceStatus.FINISHED}),
    SequenceStatus.FINISHED: frozenset(),
}


class SequenceStatusError(Exception):
    """A status that cannot follow the present one: a bug in the caller."""

    def __init__(self, sequence_id: int, current: SequenceStatus, wanted: SequenceStatus) -> None:
        allowed = ", ".join(sorted(TRANSITIONS[current])) or "nothing"
        super().__init__(
            f"sequence {sequence_id} is {current} and cannot become {wanted}; "
            f"what can follow {current}: {allowed}"
        )
        self.sequence_id = sequence_id
        self.current = current
        self.wanted = wanted


@dataclass(slots=True, kw_only=True, eq=False)
class Sequence:
    """One token stream. The scheduler owns everything but the first seven fields.

    Raises ValueError for an empty prompt, an empty script or a limit below one token.
    """

    request_id: str
    sequence_id: int
    """Unique among all sequences that a scheduler knows."""
    prompt_token_ids: ReadableSequence[int]
    """A tuple, or a range where the tokens stand for nothing."""
    max_output_tokens: int
    index: int = 0
    """Position within the request (`n > 1`)."""
    isolation_key: str = ""
    """KV is only reused between sequences with the same key."""
    script: ReadableSequence[int] | None = None
    """What the sequence will select, where that is known beforehand; it ends with it."""
    output_token_ids: list[int] = field(default_factory=list)
    block_table: list[int] = field(default_factory=list)
    """Block k holds the KV of tokens [k * block_size, (k + 1) * block_size)."""
    num_computed_tokens: int = 0
    """Tokens that have KV, counted from the first."""
    num_cached_tokens: int = 0
    """Prompt tokens that the prefix cache spared at the first admission."""
    num_preemptions: int = 0
    cache_node: int | None = None
    """Where the sequence's registered blocks end in the prefix cache."""
    num_registered_blocks: int = 0
    """Leading blocks that the prefix cache has looked at."""
    _status: SequenceStatus = SequenceStatus.WAITING

    def __post_init__(self) -> None:
        if not self.prompt_token_ids:
            raise ValueError(
                f"request {self.request_id}: the prompt is empty; at least one token is needed"
            )
        if self.max_output_tokens < 1:
            raise ValueError(
                f"request {self.request_id}: max_output_tokens is {self.max_output_tokens}; "
                f"ask for at least 1"
            )
        if self.script is not None and not self.script:
            raise ValueError(f"request {self.request_id}: the script is empty; nothing selects it")

    @property
    def status(self) -> SequenceStatus:
        """Changed by `move_to` alone."""
        return self._status

    @property
    def is_finished(self) -> bool:
        """Nothing more will be selected."""
        return self._status is SequenceStatus.FINISHED

    @property
    def num_prompt_tokens(self) -> int:
        """Tokens that the client sent."""
        return len(self.prompt_token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Tokens selected so far."""
        return len(self.output_token_ids)

    @property
    def is_complete(self) -> bool:
        """As many tokens were selected as the limit, or the script, allows."""
        limit = self.max_output_tokens if self.script is None else len(self.script)
        return len(self.output_token_ids) >= min(limit, self.max_output_tokens)

    @property
    def num_tokens(self) -> int:
        """Prompt and output together."""
        return len(self.prompt_token_ids) + len(self.output_token_ids)

    @property
    def num_tokens_behind(self) -> int:
        """Tokens without KV: what must be computed before another is selected."""
        return self.num_tokens - self.num_computed_tokens

    @property
    def is_decoding(self) -> bool:
        """Only the newest selected token lacks KV."""
        return bool(self.output_token_ids) and self.num_tokens_behind == 1

    def token_at(self, position: int) -> int:
        """The token at `position`, prompt first. Raises IndexError outside [0, num_tokens)."""
        if not 0 <= position < self.num_tokens:
            raise IndexError(
                f"sequence {self.sequence_id} has {self.num_tokens} tokens, none at {position}"
            )
        num_prompt = len(self.prompt_token_ids)
        if position < num_prompt:
            return self.prompt_token_ids[position]
        return self.output_token_ids[position - num_prompt]

    def tokens(self, start: int, stop: int) -> tuple[int, ...]:
        """The tokens at [start, stop). Raises IndexError outside [0, num_tokens]."""
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(
                f"sequence {self.sequence_id} has {self.num_tokens} tokens, not [{start}, {stop})"
            )
        num_prompt = len(self.prompt_token_ids)
        if stop <= num_prompt:
            return tuple(self.prompt_token_ids[start:stop])
        output = self.output_token_ids[max(0, start - num_prompt) : stop - num_prompt]
        return (*self.prompt_token_ids[start:], *output)

    def move_to(self, status: SequenceStatus) -> None:
        """The only way to change the status. Raises SequenceStatusError, and changes nothing."""
        if status not in TRANSITIONS[self._status]:
            raise SequenceStatusError(self.sequence_id, self._status, status)
        self._status = status
