"""The engine core keeps its promises to the host: isolation, release, refusal, recovery."""

from collections.abc import Callable, Iterator, Mapping

import pytest
import torch

from dataplane.engine import EngineRequest
from dataplane.host.core import CoreEvent
from dataplane.host.stepped_core import CoreStateError
from dataplane.lifecycle import Disposition, EventKind
from pilothouse_paged.attention import attend_decodes
from pilothouse_paged.batch import Batch
from pilothouse_paged.core import PagedEngineCore
from pilothouse_paged.model import LlamaModel
from pilothouse_paged.runner import run_first_decode
from pilothouse_paged.settings import parse_settings
from tests.plugins.pilothouse_paged.tiny_model import SHAPE, build_tiny_core, random_weights

MakeCore = Callable[..., PagedEngineCore]
MakeRequest = Callable[..., EngineRequest]
Prompts = Mapping[str, tuple[int, ...]]
BYTES_PER_TOKEN = 2 * 30 * 3 * 64 * 4  # KV of the demo model in float32


def serve(core: PagedEngineCore) -> Iterator[CoreEvent]:
    while core.has_work:
        yield from core.schedule()
        yield from core.run()
        core.check_integrity()


def kinds_of(events: list[CoreEvent]) -> list[EventKind]:
    return [event.kind for event in events]


def selected_by(events: list[CoreEvent], request_id: str) -> list[int]:
    return [t for event in events if event.request_id == request_id for t in event.token_ids]


def assert_nothing_is_held(core: PagedEngineCore) -> None:
    stats = core.stats()
    assert not core.has_work
    assert stats.num_referenced_blocks == 0
    assert stats.num_free_blocks == stats.num_blocks
    assert stats.num_unreleased == 0


@pytest.fixture
def core(make_core: MakeCore) -> PagedEngineCore:
    return make_core(
        block_size=4,
        max_num_seqs=2,
        max_prefill_tokens_per_step=8,
        max_model_len=64,
        kv_memory=f"{32 * 4 * BYTES_PER_TOKEN}B",
    )


def test_a_reused_prefix_gives_equal_tokens(
    core: PagedEngineCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    prompt = prompts["prompt-16"]
    core.add(make_request("cold", prompt, max_output_tokens=5))
    cold = list(serve(core))
    core.add(make_request("warm", prompt, max_output_tokens=5))
    warm = list(serve(core))
    assert [e.num_cached_tokens for e in warm if e.kind is EventKind.PREFILL_CHUNK] == [16]
    assert selected_by(warm, "warm") == selected_by(cold, "cold")


def test_tenants_share_no_blocks(
    core: PagedEngineCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    prompt = prompts["prompt-16"]
    core.add(make_request("a", prompt, isolation_key="a", max_output_tokens=2))
    list(serve(core))
    core.add(make_request("b", prompt, isolation_key="b", max_output_tokens=2))
    core.add(make_request("a-again", prompt, isolation_key="a", max_output_tokens=2))
    cached = {
        event.request_id: event.num_cached_tokens
        for event in serve(core)
        if event.kind is EventKind.PREFILL_CHUNK and event.num_cached_tokens is not None
    }
    assert cached == {"b": 0, "a-again": 16}


def test_scheduled_leaves_before_the_step_and_released_with_the_one_after_the_end(
    core: PagedEngineCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    core.add(make_request("r", prompts["prompt-1"], max_output_tokens=2))
    assert kinds_of(core.schedule()) == [EventKind.SCHEDULED]
    assert kinds_of(core.run()) == [EventKind.PREFILL_CHUNK, EventKind.FIRST_TOKEN]
    assert core.schedule() == []
    assert kinds_of(core.run()) == [EventKind.TOKENS, EventKind.FINISHED]
    assert core.stats().num_unreleased == 1
    assert kinds_of(core.schedule()) == [EventKind.RELEASED]
    assert core.run() == []
    assert_nothing_is_held(core)


def test_a_cancel_in_the_queue_releases_everything(
    core: PagedEngineCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    core.add(make_request("r", prompts["prompt-20"]))
    assert kinds_of(core.finish("r", Disposition.CANCELLED)) == [EventKind.FINISHED]
    assert kinds_of(core.schedule()) == [EventKind.RELEASED]
    assert_nothing_is_held(core)


def test_a_cancel_in_prefill_releases_everything(
    core: PagedEngineCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    core.add(make_request("r", prompts["prompt-20"]))
    core.schedule()
    assert kinds_of(core.run()) == [EventKind.PREFILL_CHUNK]
    assert core.stats().num_referenced_blocks == 2
    assert kinds_of(core.finish("r", Disposition.CANCELLED)) == [EventKind.FINISHED]
    assert kinds_of(list(serve(core))) == [EventKind.RELEASED]
    assert_nothing_is_held(core)


def test_a_cancel_in_decode_releases_everything_and_a_second_one_says_nothing(
    core: PagedEngineCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    core.add(make_request("r", prompts["prompt-2"]))
    for _ in range(3):
        core.schedule()
        core.run()
    (finished,) = core.finish("r", Disposition.DEADLINE)
    assert finished.disposition is Disposition.DEADLINE
    assert core.finish("r", Disposition.CANCELLED) == []
    assert kinds_of(list(serve(core))) == [EventKind.RELEASED]
    assert_nothing_is_held(core)


def test_a_cancel_between_schedule_and_run_selects_nothing_more(
    core: PagedEngineCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    core.add(make_request("r", prompts["prompt-2"]))
    core.schedule()
    core.finish("r", Disposition.CANCELLED)
    assert core.run() == []
    assert kinds_of(list(serve(core))) == [EventKind.RELEASED]
    assert_nothing_is_held(core)


def test_a_request_that_can_never_fit_is_refused_at_once(
    core: PagedEngineCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    (event,) = core.add(make_request("long", prompts["prompt-31"] * 3))
    assert (event.kind, event.disposition) == (EventKind.FINISHED, Disposition.ERROR)
    assert "64" in (event.reason or "")
    assert_nothing_is_held(core)


@pytest.mark.parametrize(("prompt", "why"), [((), "empty"), ((49152,), "vocabulary of 49152")])
def test_a_prompt_that_is_no_prompt_is_invalid(
    core: PagedEngineCore, make_request: MakeRequest, prompt: tuple[int, ...], why: str
) -> None:
    (event,) = core.add(make_request("r", prompt))
    assert event.disposition is Disposition.INVALID
    assert why in (event.reason or "")
    assert_nothing_is_held(core)


def test_a_step_that_failed_can_be_run_again_and_changes_no_token(
    core: PagedEngineCore,
    make_request: MakeRequest,
    prompts: Prompts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core.add(make_request("calm", prompts["prompt-3"], max_output_tokens=3))
    calm = selected_by(list(serve(core)), "calm")
    core.add(make_request("rough", prompts["prompt-3"], max_output_tokens=3))
    core.schedule()

    def fail(*_: object) -> None:
        raise MemoryError("no memory for this step")

    with monkeypatch.context() as patch:
        patch.setattr("pilothouse_paged.selecting_runner.select_tokens", fail)
        with pytest.raises(MemoryError):
            core.run()
    core.check_integrity()
    assert core.schedule() == []
    assert selected_by(list(serve(core)), "rough") == calm
    assert_nothing_is_held(core)


def test_sixty_four_requests_finish_in_thirty_two_slots(
    make_core: MakeCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    core = make_core(max_num_seqs=32, max_model_len=64, kv_memory="32MiB")
    for index in range(64):
        prompt = prompts[f"prompt-{index % 8}"]
        core.add(make_request(f"r{index}", prompt, max_output_tokens=3, ignore_eos=True))
    finished = []
    for event in serve(core):
        assert (core.stats().num_running or 0) <= 32
        if event.kind is EventKind.FINISHED:
            finished.append((event.request_id, event.disposition))
    assert sorted(finished) == sorted((f"r{i}", Disposition.LENGTH) for i in range(64))
    assert_nothing_is_held(core)


def test_sampling_with_a_seed_does_not_depend_on_neighbours(
    core: PagedEngineCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    def sampled(request_id: str) -> EngineRequest:
        return make_request(
            request_id, prompts["prompt-9"], temperature=0.8, top_p=0.9, seed=11,
            max_output_tokens=5, ignore_eos=True,
        )  # fmt: skip

    core.add(sampled("alone"))
    alone = selected_by(list(serve(core)), "alone")
    core.add(make_request("neighbour", prompts["prompt-4"], temperature=1.0, seed=3))
    core.add(sampled("together"))
    assert selected_by(list(serve(core)), "together") == alone


def test_the_ledger_adds_up_and_holds_what_is_allocated(make_core: MakeCore) -> None:
    core = make_core(max_num_seqs=2, max_model_len=64, kv_memory="32MiB")
    ledger = core.stats().ledger
    assert ledger is not None
    assert ledger["weights"] == 4 * 134_515_008
    assert ledger["kv"] == (core.stats().num_blocks or 0) * 16 * BYTES_PER_TOKEN
    assert ledger["workspace"] > 0
    assert 0 <= ledger["unassigned"] < 16 * BYTES_PER_TOKEN


def test_a_pool_smaller_than_the_configured_length_is_refused(make_core: MakeCore) -> None:
    with pytest.raises(ValueError, match=r"raise settings\.kv_memory or lower max_model_len"):
        make_core(max_num_seqs=2, max_model_len=4096, kv_memory="8MiB")


def test_an_id_that_is_still_here_is_refused(
    core: PagedEngineCore, make_request: MakeRequest, prompts: Prompts
) -> None:
    core.add(make_request("r", prompts["prompt-1"]))
    with pytest.raises(CoreStateError, match="still here"):
        core.add(make_request("r", prompts["prompt-1"]))


def test_the_first_decode_runs_the_kernel_once_and_a_cpu_compiles_nothing() -> None:
    num_calls = 0

    def attend(queries: torch.Tensor, kv_cache: torch.Tensor, batch: Batch) -> torch.Tensor:
        nonlocal num_calls
        num_calls += 1
        return attend_decodes(queries, kv_cache, batch)

    model = LlamaModel(SHAPE, random_weights(), attend)
    run_first_decode(model, parse_settings({"device": "cpu"}))
    assert num_calls == 1
    assert build_tiny_core().compile_seconds is None
