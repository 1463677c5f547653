"""What an engine tells and cannot be: found where it comes in, before anybody counts with it.

A replica may be wrong, of another release, or lie. What it says about a request is counted, stored
and billed; what it says about itself decides where requests go. A number out of range is never
bent into range: an event that cannot be breaks the engine's contract, and a snapshot, a measurement
or a count of tokens that cannot be is not used. Pure.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dataplane.engine import EngineCapabilities, EngineEvent, EngineRequest, EngineStats, EngineUse
from dataplane.lifecycle import EventKind

MAX_TOKENS = 2**24
"""Of one number that an engine tells; above every prompt and answer there is."""
_TEMPLATE_TOKENS = 2**14
"""That an endpoint's own template and its operator's own words may add to a prompt."""
_MAX_COUNT = 2**53
_MAX_SECONDS = 366 * 86_400.0
_COUNTS_BY_KIND: Mapping[EventKind, tuple[str, ...]] = {
    EventKind.SCHEDULED: (),
    EventKind.PREFILL_CHUNK: ("num_tokens", "num_cached_tokens"),
    EventKind.FIRST_TOKEN: ("num_tokens",),
    EventKind.TOKENS: ("num_tokens",),
    EventKind.PREEMPTED: (),
    EventKind.RESUMED: (),
    EventKind.PAUSED: (),
    EventKind.FINISHED: ("num_prompt_tokens", "num_output_tokens", "num_cached_tokens"),
    EventKind.RELEASED: (),
}
"""All that an engine tells, and what is counted of it."""
_STAT_FIELDS = (
    *("max_num_seqs", "num_running", "num_waiting", "num_blocks", "num_free_blocks"),
    *("num_referenced_blocks", "num_cached_blocks", "num_evictable_blocks", "num_unreleased"),
    *("num_steps", "prompt_tokens_scheduled", "decode_steps_scheduled", "num_preemptions"),
)
_PARTS_OF_BLOCKS = ("num_free_blocks", "num_referenced_blocks", "num_cached_blocks")


def find_impossible_event(event: EngineEvent) -> str | None:
    """Why no engine can mean it, in words; None: it may be so. Of its time nothing is said here,
    nor of what it used."""
    counts = _COUNTS_BY_KIND.get(event.kind)
    if counts is None:
        return f"{event.kind} is not for an engine to tell"
    for name in counts:
        number = getattr(event, name)
        if number is not None and not 0 <= number <= MAX_TOKENS:
            return f"{name} is {number}"
    if event.status_code is not None and not 400 <= event.status_code <= 599:
        return f"{event.status_code} is no status of an error"
    return None


def find_impossible_use(used: EngineUse) -> str | None:
    """Why nothing can have taken so much, in words; None: it may have."""
    if not 0 <= used.engine_seconds <= _MAX_SECONDS:
        return f"engine_seconds is {used.engine_seconds}"
    blocks = used.kv_block_seconds
    if blocks is not None and not 0 <= blocks <= _MAX_COUNT:
        return f"kv_block_seconds is {blocks}"
    return None


def find_impossible_stats(stats: EngineStats) -> str | None:
    """Why no engine can be so, in words; None: it may be."""
    if not 0 <= stats.age_seconds < math.inf:
        return f"age_seconds is {stats.age_seconds}"
    for name in _STAT_FIELDS:
        number = getattr(stats, name)
        if number is not None and not 0 <= number <= _MAX_COUNT:
            return f"{name} is {number}"
    if stats.block_size is not None and not 0 < stats.block_size <= MAX_TOKENS:
        return f"block_size is {stats.block_size}"
    if stats.num_blocks is None:
        return None
    for name in _PARTS_OF_BLOCKS:
        number = getattr(stats, name)
        if number is not None and number > stats.num_blocks:
            return f"{name} is {number}, of {stats.num_blocks} blocks"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was sent to an engine, as far as it bounds what the engine may count of it.

    A prompt that was sent as ids has as many tokens as there are ids, and what is selected is told
    one by one. An endpoint that was sent text counts by a tokenizer and a template of its own: a
    guess refutes nobody, so all is granted to it that some tokenizer could find. None finds more
    tokens than bytes; and some endpoints do not hold reasoning to the limit, so that what they
    have streamed is granted beyond it.
    """

    num_prompt_tokens: int | None
    """None: its engine counts by its own tokenizer."""
    num_body_bytes: int
    """Of the body that the prompt came in."""
    max_output_tokens: int
    """Of all sequences together."""

    @classmethod
    def of(
        cls, request: EngineRequest, capabilities: EngineCapabilities, num_body_bytes: int
    ) -> "Asked":
        """One attempt at an engine."""
        sampling, token_ids = request.sampling, request.prompt_token_ids
        return cls(
            num_prompt_tokens=len(token_ids)
            if capabilities.takes_token_ids and token_ids
            else None,
            num_body_bytes=num_body_bytes,
            max_output_tokens=sampling.max_output_tokens * sampling.num_sequences,
        )

    @property
    def max_prompt_tokens(self) -> int:
        """No tokenizer finds more."""
        if self.num_prompt_tokens is not None:
            return self.num_prompt_tokens
        return self.num_body_bytes + _TEMPLATE_TOKENS

    def find_excess(self, event: EngineEvent, num_output_tokens: int) -> str | None:
        """Why an event tells of more work than there was, in words, after so many tokens were
        selected; None: it does not, or its tokens are not counted alike."""
        if self.num_prompt_tokens is None:
            return None
        num_tokens = num_tokens_of(event)
        if event.kind is EventKind.TOKENS or event.kind is EventKind.FIRST_TOKEN:
            num_selected = num_output_tokens + num_tokens
            if num_selected > self.max_output_tokens:
                return f"{num_selected} tokens are selected, of at most {self.max_output_tokens}"
        elif event.kind is EventKind.PREFILL_CHUNK:  # after a preemption the answer's as well
            most = self.num_prompt_tokens + self.max_output_tokens
            if num_tokens > most:
                return f"{num_tokens} tokens are computed at once, of at most {most}"
        return None

    def find_untrue_prompt(self, told: int) -> str | None:
        """Why the prompt cannot have so many tokens, in words; None: it may."""
        num_sent = self.num_prompt_tokens
        if num_sent is not None and told != num_sent:
            return f"a prompt of {told} tokens, and {num_sent} were sent"
        if told > self.max_prompt_tokens:
            return f"a prompt of {told} tokens, in a body of {self.num_body_bytes} bytes"
        return None

    def find_untrue_cached(self, told: int) -> str | None:
        """Why so many of the prompt's tokens cannot have been cached, in words; None: they may."""
        most = self.max_prompt_tokens
        return f"{told} cached tokens, of a prompt of {most} at most" if told > most else None

    def find_untrue_output(self, told: int, num_counted: int) -> str | None:
        """Why not so many can have been selected, in words, where the gateway counted so many;
        None: they may."""
        is_counted_alike = self.num_prompt_tokens is not None
        most = self.max_output_tokens + (0 if is_counted_alike else num_counted)
        return f"an answer of {told} tokens, of {most} at most" if told > most else None


def num_tokens_of(event: EngineEvent) -> int:
    """That it tells of; one that shows neither a count nor ids tells of one."""
    return event.num_tokens if event.num_tokens is not None else len(event.token_ids) or 1
