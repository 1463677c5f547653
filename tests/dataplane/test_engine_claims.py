"""What an engine tells and cannot be is found, with the number; what may be passes."""

import math
from dataclasses import replace
from typing import Any

import pytest

from dataplane.engine import EngineEvent, EngineStats, EngineUse
from dataplane.engine_claims import (
    MAX_TOKENS,
    Asked,
    find_impossible_event,
    find_impossible_stats,
    find_impossible_use,
)
from dataplane.lifecycle import EventKind

STATS = EngineStats(
    age_seconds=0.2, num_running=3, num_waiting=0, num_blocks=10, block_size=16, num_free_blocks=10
)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (EngineEvent(kind=EventKind.TOKENS, num_tokens=-1), "num_tokens is -1"),
        (EngineEvent(kind=EventKind.TOKENS, num_tokens=MAX_TOKENS + 1), "num_tokens is 16777217"),
        (EngineEvent(kind=EventKind.PREFILL_CHUNK, num_cached_tokens=-3), "num_cached_tokens"),
        (EngineEvent(kind=EventKind.FINISHED, num_output_tokens=-1), "num_output_tokens is -1"),
        (EngineEvent(kind=EventKind.FINISHED, status_code=42), "42 is no status of an error"),
        (EngineEvent(kind=EventKind.FIRST_WRITE), "first_write is not for an engine to tell"),
    ],
)
def test_an_event_that_cannot_be_is_found(event: EngineEvent, why: str) -> None:
    assert why in (find_impossible_event(event) or "")


@pytest.mark.parametrize(
    "event",
    [
        EngineEvent(kind=EventKind.TOKENS),
        EngineEvent(kind=EventKind.PREFILL_CHUNK, num_tokens=0, num_cached_tokens=MAX_TOKENS),
        EngineEvent(kind=EventKind.FINISHED, status_code=503, num_output_tokens=0),
    ],
)
def test_an_event_that_may_be_passes(event: EngineEvent) -> None:
    assert find_impossible_event(event) is None


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"age_seconds": math.nan}, "age_seconds is nan"),
        ({"age_seconds": -1.0}, "age_seconds is -1.0"),
        ({"age_seconds": math.inf}, "age_seconds is inf"),
        ({"num_running": -2}, "num_running is -2"),
        ({"num_waiting": 10**30}, "num_waiting is 1" + "0" * 30),
        ({"block_size": 0}, "block_size is 0"),
        ({"num_free_blocks": 11}, "num_free_blocks is 11, of 10 blocks"),
        ({"num_referenced_blocks": 11}, "num_referenced_blocks is 11, of 10 blocks"),
    ],
)
def test_a_snapshot_that_cannot_be_is_found(told: dict[str, Any], why: str) -> None:
    assert find_impossible_stats(replace(STATS, **told)) == why


def test_a_snapshot_that_may_be_passes() -> None:
    assert find_impossible_stats(STATS) is None
    assert find_impossible_stats(EngineStats(age_seconds=0.0)) is None


@pytest.mark.parametrize("seconds", [-0.1, math.nan, math.inf, 1e12])
def test_nothing_takes_less_than_no_time_or_more_than_there_was(seconds: float) -> None:
    assert find_impossible_use(EngineUse(engine_seconds=seconds)) is not None
    told = EngineUse(engine_seconds=1.0, kv_block_seconds=-seconds if seconds > 1 else seconds)
    assert find_impossible_use(told) is not None
    assert find_impossible_use(EngineUse(engine_seconds=1.0, kv_block_seconds=4.0)) is None


OF_IDS = Asked(num_prompt_tokens=5, num_body_bytes=90, max_output_tokens=8)
OF_TEXT = Asked(num_prompt_tokens=None, num_body_bytes=90, max_output_tokens=8)


def test_a_prompt_sent_as_ids_has_as_many_tokens_and_no_more_are_cached() -> None:
    assert OF_IDS.find_untrue_prompt(5) is None
    assert OF_IDS.find_untrue_prompt(6) == "a prompt of 6 tokens, and 5 were sent"
    assert OF_IDS.find_untrue_prompt(4) is not None
    assert OF_IDS.find_untrue_cached(5) is None
    assert OF_IDS.find_untrue_cached(6) is not None


def test_an_endpoint_that_counts_by_its_own_tokenizer_is_granted_its_template() -> None:
    assert OF_TEXT.find_untrue_prompt(400) is None
    assert OF_TEXT.find_untrue_prompt(10**7) is not None
    assert OF_TEXT.find_untrue_cached(10**7) is not None


def test_nobody_selects_more_than_was_asked_for_and_seen() -> None:
    assert OF_IDS.find_untrue_output(8, 8) is None
    assert OF_IDS.find_untrue_output(9, 8) == "an answer of 9 tokens, of 8 at most"
    assert OF_TEXT.find_untrue_output(30, 22) is None  # reasoning, which some do not limit
    assert OF_TEXT.find_untrue_output(31, 22) is not None


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (EngineEvent(kind=EventKind.TOKENS, num_tokens=3), "9 tokens are selected, of at most 8"),
        (EngineEvent(kind=EventKind.FIRST_TOKEN, token_ids=(1, 2, 3)), "9 tokens are selected"),
        (EngineEvent(kind=EventKind.PREFILL_CHUNK, num_tokens=14), "14 tokens are computed"),
    ],
)
def test_an_engine_that_was_sent_ids_tells_of_no_more_work_than_there_is(
    event: EngineEvent, why: str
) -> None:
    assert why in (OF_IDS.find_excess(event, num_output_tokens=6) or "")
    assert OF_IDS.find_excess(event, num_output_tokens=0) is None or "computed" in why
    assert OF_TEXT.find_excess(event, num_output_tokens=6) is None
