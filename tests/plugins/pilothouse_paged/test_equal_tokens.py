"""The engine selects what a plain forward pass of the same weights selects.

The reference shares no code with the engine (see `PlainLlama`) and is given the engine's whole
output at once. When its best token after each prefix is the token the engine selected there,
then generating with it token by token would have given the same output, by induction.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import torch

from dataplane.engine import EngineRequest
from dataplane.host.core import CoreEvent, TokenScore
from dataplane.lifecycle import Disposition, EventKind
from dataplane.tokenizer import Tokenizer
from pilothouse_paged.artifact import open_artifact
from pilothouse_paged.attention import attend_decodes
from pilothouse_paged.core import PagedEngineCore
from pilothouse_paged.model import LlamaModel
from pilothouse_paged.shape import LlamaShape
from pilothouse_paged.weights import load_weights
from tests.plugins.pilothouse_paged.plain_llama import PlainLlama

Prompts = Mapping[str, tuple[int, ...]]
MAX_OUTPUT_TOKENS = 10
BYTES_PER_TOKEN = 2 * 30 * 3 * 64 * 4  # KV of the demo model in float32


def serve(core: PagedEngineCore) -> Iterator[CoreEvent]:
    """Every event until nothing is left to do; integrity is checked between steps."""
    while core.has_work:
        yield from core.schedule()
        yield from core.run()
        core.check_integrity()


def outputs_of(events: list[CoreEvent]) -> dict[str, list[int]]:
    outputs: dict[str, list[int]] = {}
    for event in events:
        outputs.setdefault(event.request_id, []).extend(event.token_ids)
    return outputs


@pytest.fixture(scope="module")
def reference(demo_path: Path) -> PlainLlama:
    return PlainLlama.of_gguf(demo_path)


@pytest.fixture(scope="module")
def crowded(
    make_core: Callable[..., PagedEngineCore],
    make_request: Callable[..., EngineRequest],
    prompts: Prompts,
) -> tuple[PagedEngineCore, list[CoreEvent]]:
    """All prompts at once, in chunks, through a pool that holds a part of them."""
    core = make_core(
        block_size=2,
        max_num_seqs=32,
        max_prefill_tokens_per_step=64,
        max_model_len=64,
        kv_memory=f"{80 * 2 * BYTES_PER_TOKEN}B",
    )
    for request_id, prompt in prompts.items():
        assert core.add(make_request(request_id, prompt, max_output_tokens=MAX_OUTPUT_TOKENS)) == []
    return core, list(serve(core))


def test_greedy_tokens_equal_those_of_a_plain_forward_pass(
    crowded: tuple[PagedEngineCore, list[CoreEvent]], reference: PlainLlama, prompts: Prompts
) -> None:
    outputs = outputs_of(crowded[1])
    assert len(outputs) == 32
    for request_id, prompt in prompts.items():
        selected = outputs[request_id]
        best = reference.best([*prompt, *selected[:-1]], len(prompt) - 1)
        assert selected == best, request_id


def test_logprobs_equal_those_of_a_plain_forward_pass_whatever_changes_the_choice(
    make_core: Callable[..., PagedEngineCore],
    make_request: Callable[..., EngineRequest],
    reference: PlainLlama,
    prompts: Prompts,
) -> None:
    core = make_core(max_num_seqs=4, block_size=4, max_model_len=64, kv_memory="64MiB")
    prompt = prompts["prompt-13"]
    core.add(
        make_request(
            "r", prompt, max_output_tokens=6, num_sequences=2, num_logprobs=3, ignore_eos=True,
            temperature=1.5, seed=4, presence_penalty=1.0, logit_bias=((5, 2.0),),
        )
    )  # fmt: skip
    scores: dict[int, list[TokenScore]] = {0: [], 1: []}
    for event in serve(core):
        scores[event.sequence].extend(event.scores)
    assert [score.token_id for score in scores[0]] != [score.token_id for score in scores[1]]
    for told in scores.values():
        selected = [score.token_id for score in told]
        own = reference.logits([*prompt, *selected[:-1]], len(prompt) - 1).log_softmax(-1)
        logprobs = torch.tensor([score.logprob for score in told])
        torch.testing.assert_close(logprobs, own[range(len(told)), selected], rtol=1e-3, atol=1e-3)
        best = own.topk(3, dim=-1)
        assert [[top_id for top_id, _ in score.top] for score in told] == best.indices.tolist()


def test_the_crowded_run_was_preempted_chunked_and_reused_prefixes(
    crowded: tuple[PagedEngineCore, list[CoreEvent]],
) -> None:
    core, events = crowded
    kinds = [event.kind for event in events]
    assert kinds.count(EventKind.PREEMPTED) == core.stats().num_preemptions
    assert kinds.count(EventKind.PREEMPTED) >= 3
    assert kinds.count(EventKind.RESUMED) >= 3
    assert kinds.count(EventKind.PREFILL_CHUNK) > 32 + kinds.count(EventKind.PREEMPTED)
    assert sum(event.num_cached_tokens or 0 for event in events) > 0


def test_every_request_of_the_crowded_run_lives_its_life_in_order(
    crowded: tuple[PagedEngineCore, list[CoreEvent]], prompts: Prompts
) -> None:
    core, events = crowded
    for request_id in prompts:
        kinds = [event.kind for event in events if event.request_id == request_id]
        assert kinds[0] is EventKind.SCHEDULED
        assert kinds[1] is EventKind.PREFILL_CHUNK or kinds[1] is EventKind.PREEMPTED
        assert kinds.count(EventKind.FIRST_TOKEN) == 1
        assert kinds[-2:] == [EventKind.FINISHED, EventKind.RELEASED]
    assert core.stats().num_referenced_blocks == 0
    assert core.stats().num_unreleased == 0


def test_prefill_chunks_and_cached_tokens_add_up_to_the_prompt(
    make_core: Callable[..., PagedEngineCore],
    make_request: Callable[..., EngineRequest],
    prompts: Prompts,
) -> None:
    core = make_core(
        max_num_seqs=4, max_prefill_tokens_per_step=8, kv_memory="64MiB", max_model_len=256
    )
    prompt = prompts["prompt-31"]
    for turn in ("cold", "warm"):
        core.add(make_request(turn, prompt, max_output_tokens=1))
        events = list(serve(core))
        chunks = [event for event in events if event.kind is EventKind.PREFILL_CHUNK]
        computed = sum(event.num_tokens or 0 for event in chunks)
        cached = sum(event.num_cached_tokens or 0 for event in chunks)
        assert computed + cached == len(prompt)
        assert cached == (0 if turn == "cold" else (len(prompt) - 1) // 16 * 16)


def test_bfloat16_selects_the_best_token_wherever_rounding_cannot_decide(
    make_core: Callable[..., PagedEngineCore],
    make_request: Callable[..., EngineRequest],
    reference: PlainLlama,
    prompts: Prompts,
    demo_path: Path,
    demo_shape: LlamaShape,
) -> None:
    """Rounding error at a position: the largest difference, over the whole vocabulary, between
    the reference computed in bfloat16 and computed in float32 from the same bfloat16 weights.
    The best and the second-best token can each move by it, so below a margin of twice the
    error either may win. Of every third prompt its end: few processors multiply bfloat16 fast."""
    ends = {request_id: prompt[-8:] for request_id, prompt in list(prompts.items())[::3]}
    _, source = open_artifact(demo_path)
    weights = load_weights(source, demo_shape, torch.bfloat16, torch.device("cpu"))
    core = make_core(
        LlamaModel(demo_shape, weights, attend_decodes),
        dtype="bfloat16",
        block_size=2,
        max_num_seqs=32,
        max_prefill_tokens_per_step=64,
        max_model_len=32,
        kv_memory=f"{40 * 2 * BYTES_PER_TOKEN // 2}B",
    )
    for request_id, prompt in ends.items():
        core.add(make_request(request_id, prompt, max_output_tokens=4))
    outputs = outputs_of(list(serve(core)))
    narrow = reference.in_dtype(torch.bfloat16)
    wide = narrow.in_dtype(torch.float32)

    decided, num_positions = [], 0
    for request_id, prompt in ends.items():
        selected = outputs[request_id]
        given = [*prompt, *selected[:-1]]
        exact = wide.logits(given, len(prompt) - 1)
        error = (exact - narrow.logits(given, len(prompt) - 1)).abs().amax(-1)
        best, second = exact.topk(2, dim=-1).values.unbind(-1)
        agrees = torch.tensor(selected) == exact.argmax(-1)
        decided += agrees[best - second > 2 * error].tolist()
        num_positions += len(selected)
    assert all(decided)
    assert len(decided) >= num_positions // 4, f"rounding decides all but {len(decided)}"


def test_the_capital_of_france_is_paris(
    make_core: Callable[..., PagedEngineCore],
    make_request: Callable[..., EngineRequest],
    tokenizer: Tokenizer,
) -> None:
    question = [{"role": "user", "content": "What is the capital of France?"}]
    core = make_core(max_num_seqs=2, kv_memory="64MiB", max_model_len=256)
    core.add(make_request("france", tuple(tokenizer.encode_chat(question)), max_output_tokens=24))
    events = list(serve(core))
    assert "Paris" in tokenizer.decode(outputs_of(events)["france"])
    (finished,) = (event for event in events if event.kind is EventKind.FINISHED)
    assert finished.disposition is Disposition.STOP
