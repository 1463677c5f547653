"""One request with several sequences: a shared prompt, answers of their own, one release."""

from collections.abc import Callable, Iterator

import pytest

from dataplane.engine import EngineRequest
from dataplane.host.core import CoreEvent
from dataplane.lifecycle import Disposition, EventKind
from pilothouse_paged.core import PagedEngineCore
from tests.plugins.pilothouse_paged.tiny_model import build_tiny_core

MakeRequest = Callable[..., EngineRequest]
BLOCK_SIZE = 4
PROMPT = tuple(range(1, 24))


def serve(core: PagedEngineCore) -> Iterator[CoreEvent]:
    while core.has_work:
        yield from core.schedule()
        yield from core.run()
        core.check_integrity()


def answers_of(events: list[CoreEvent], request_id: str = "r") -> dict[int, list[int]]:
    answers: dict[int, list[int]] = {}
    for event in events:
        if event.request_id == request_id and event.token_ids:
            answers.setdefault(event.sequence, []).extend(event.token_ids)
    return answers


def count(events: list[CoreEvent], kind: EventKind) -> int:
    return sum(event.kind is kind for event in events)


def assert_nothing_is_held(core: PagedEngineCore) -> None:
    stats = core.stats()
    assert not core.has_work
    assert (stats.num_referenced_blocks, stats.num_unreleased) == (0, 0)


@pytest.fixture
def core() -> PagedEngineCore:
    return build_tiny_core(
        max_num_seqs=4,
        max_prefill_tokens_per_step=8,
        max_model_len=64,
    )


def test_greedy_answers_are_equal_and_the_request_lives_one_life(
    core: PagedEngineCore, make_request: MakeRequest
) -> None:
    core.add(make_request("r", PROMPT, num_sequences=3, max_output_tokens=5))
    events = list(serve(core))
    answers = answers_of(events)
    assert sorted(answers) == [0, 1, 2]
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 5
    assert count(events, EventKind.SCHEDULED) == count(events, EventKind.RELEASED) == 1
    assert count(events, EventKind.FIRST_TOKEN) == count(events, EventKind.FINISHED) == 3
    assert events[-1].kind is EventKind.RELEASED
    assert_nothing_is_held(core)


@pytest.mark.parametrize("prefix_caching", [True, False])
def test_all_sequences_read_the_same_blocks_of_the_prompt(
    make_request: MakeRequest, prefix_caching: bool
) -> None:
    core = build_tiny_core(
        max_num_seqs=4, max_model_len=64,
        prefix_caching=prefix_caching,
    )  # fmt: skip
    prompt = PROMPT
    num_full_blocks = (len(prompt) - 1) // BLOCK_SIZE
    core.add(make_request("r", prompt, num_sequences=3, max_output_tokens=3, ignore_eos=True))
    core.schedule()
    core.run()
    core.schedule()
    shared = [
        b for b in range(core.stats().num_blocks or 0) if core.scheduler.pool.ref_count(b) == 3
    ]
    assert len(shared) == num_full_blocks
    events = core.run()
    tails = [e.num_tokens for e in events if e.kind is EventKind.PREFILL_CHUNK]
    assert tails == [len(prompt) - num_full_blocks * BLOCK_SIZE] * 2
    list(serve(core))
    assert_nothing_is_held(core)


def test_without_prefix_caching_another_request_finds_nothing(make_request: MakeRequest) -> None:
    core = build_tiny_core(max_model_len=64, prefix_caching=False)
    for request_id in ("r", "again"):
        core.add(make_request(request_id, PROMPT, max_output_tokens=1))
        chunks = [e for e in serve(core) if e.kind is EventKind.PREFILL_CHUNK]
        assert [chunk.num_cached_tokens for chunk in chunks] == [0]


def test_a_seed_gives_every_sequence_its_own_answer_and_the_same_ones_again(
    core: PagedEngineCore, make_request: MakeRequest
) -> None:
    def answers(request_id: str, seed: int) -> dict[int, list[int]]:
        core.add(
            make_request(
                request_id, PROMPT, num_sequences=4, max_output_tokens=6,
                temperature=1.0, seed=seed, ignore_eos=True,
            )
        )  # fmt: skip
        return answers_of(list(serve(core)), request_id)

    first = answers("first", seed=7)
    assert len({tuple(answer) for answer in first.values()}) == 4
    assert answers("again", seed=7) == first
    assert answers("other", seed=8) != first


def test_the_first_answer_of_several_is_the_only_one_of_one(
    core: PagedEngineCore, make_request: MakeRequest
) -> None:
    sampling = {"max_output_tokens": 6, "temperature": 1.0, "seed": 7, "ignore_eos": True}
    core.add(make_request("one", PROMPT, **sampling))
    core.add(make_request("two", PROMPT, num_sequences=2, **sampling))
    events = list(serve(core))
    assert answers_of(events, "two")[0] == answers_of(events, "one")[0]


@pytest.mark.parametrize("num_half_steps", range(12))
def test_a_cancel_at_any_moment_ends_all_sequences_once(
    core: PagedEngineCore, make_request: MakeRequest, num_half_steps: int
) -> None:
    core.add(make_request("r", PROMPT, num_sequences=3, max_output_tokens=9))
    events: list[CoreEvent] = []
    for half_step in range(num_half_steps):
        events += core.run() if half_step % 2 else core.schedule()
    told = core.finish("r", Disposition.CANCELLED)
    assert [event.disposition for event in told] == [Disposition.CANCELLED]
    assert core.finish("r", Disposition.CANCELLED) == []
    rest = list(serve(core))
    assert [event.kind for event in rest if event.request_id == "r"] == [EventKind.RELEASED]
    assert_nothing_is_held(core)


def test_a_stopped_sequence_leaves_the_others_running(
    core: PagedEngineCore, make_request: MakeRequest
) -> None:
    core.add(make_request("r", PROMPT, num_sequences=2, max_output_tokens=8, ignore_eos=True))
    events: list[CoreEvent] = []
    while count(events, EventKind.FIRST_TOKEN) < 2:
        events += core.schedule() + core.run()
    (stopped,) = core.finish("r", Disposition.STOP, sequence=1)
    assert (stopped.sequence, stopped.disposition) == (1, Disposition.STOP)
    events += serve(core)
    assert len(answers_of(events)[0]) == 8
    assert len(answers_of(events)[1]) < 8
    assert count(events, EventKind.RELEASED) == 1
    assert_nothing_is_held(core)


def test_more_sequences_than_slots_take_turns(make_request: MakeRequest) -> None:
    core = build_tiny_core(
        max_num_seqs=2,
        max_model_len=64,
    )
    core.add(make_request("r", PROMPT, num_sequences=5, max_output_tokens=3))
    answers = answers_of(list(serve(core)))
    assert len(answers) == 5
    assert len({tuple(answer) for answer in answers.values()}) == 1
    assert_nothing_is_held(core)
