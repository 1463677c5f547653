"""A folder and a GGUF file of the same model are the same model: weights, tokens, text.

The folder is written from the file, with the rows of q and k put back as Hugging Face has
them. Two things are then compared that share no code: what the engine selects, and what a
plain forward pass over the folder's own tensors selects, which rotates halves.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from dataplane.engine import EngineRequest
from dataplane.host.core import CoreEvent
from dataplane.lifecycle import Disposition, EventKind
from dataplane.tokenizer import Tokenizer
from dataplane.tokenizer_loading import load_tokenizer
from pilothouse_paged.artifact import open_artifact
from pilothouse_paged.attention import attend_decodes
from pilothouse_paged.core import PagedEngineCore
from pilothouse_paged.model import LlamaModel
from pilothouse_paged.shape import LlamaShape
from pilothouse_paged.weights import LayerWeights, load_weights
from tests.plugins.pilothouse_paged.converted_folder import convert
from tests.plugins.pilothouse_paged.plain_llama import PlainLlama

MakeCore = Callable[..., PagedEngineCore]
MakeRequest = Callable[..., EngineRequest]


@pytest.fixture(scope="module")
def folder(demo_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = convert(demo_path, tmp_path_factory.mktemp("converted") / "smollm2")
    yield path
    shutil.rmtree(path)  # half a gigabyte


@pytest.fixture(scope="module")
def folder_model(folder: Path) -> LlamaModel:
    shape, source = open_artifact(folder)
    weights = load_weights(source, shape, torch.float32, torch.device("cpu"))
    return LlamaModel(shape, weights, attend_decodes)


def serve(core: PagedEngineCore) -> list[CoreEvent]:
    events: list[CoreEvent] = []
    while core.has_work:
        events += core.schedule()
        events += core.run()
    return events


def outputs_of(events: list[CoreEvent]) -> dict[str, list[int]]:
    outputs: dict[str, list[int]] = {}
    for event in events:
        outputs.setdefault(event.request_id, []).extend(event.token_ids)
    return outputs


def test_the_shape_is_that_of_the_file(folder_model: LlamaModel, demo_shape: LlamaShape) -> None:
    for field in fields(LlamaShape):
        ours, theirs = (getattr(shape, field.name) for shape in (folder_model.shape, demo_shape))
        assert ours == (pytest.approx(theirs) if field.name == "norm_epsilon" else theirs)


def test_every_weight_is_that_of_the_file(folder_model: LlamaModel, demo_model: LlamaModel) -> None:
    ours, theirs = folder_model.weights, demo_model.weights
    assert torch.equal(ours.embedding, theirs.embedding)
    assert torch.equal(ours.output_norm, theirs.output_norm)
    assert ours.output is ours.embedding
    for layer, other in zip(ours.layers, theirs.layers, strict=True):
        for field in fields(LayerWeights):
            assert torch.equal(getattr(layer, field.name), getattr(other, field.name)), field.name


def test_the_ledger_counts_the_weights_as_they_lie(
    folder_model: LlamaModel, demo_model: LlamaModel, make_core: MakeCore
) -> None:
    layers, hidden, inner, kv, vocab = 30, 576, 1536, 192, 49152
    layer = 2 * hidden * hidden + 2 * kv * hidden + 3 * inner * hidden + 2 * hidden
    expected = 4 * (layers * layer + hidden + vocab * hidden)
    core = make_core(folder_model, max_num_seqs=1, kv_memory="16MiB", max_model_len=64)
    assert (core.stats().ledger or {})["weights"] == expected
    assert folder_model.weights.num_bytes == demo_model.weights.num_bytes == expected


def test_greedy_tokens_equal_the_files_and_those_of_a_plain_forward_pass(
    folder: Path,
    folder_model: LlamaModel,
    make_core: MakeCore,
    make_request: MakeRequest,
    prompts: Mapping[str, tuple[int, ...]],
) -> None:
    chosen = {request_id: prompts[request_id] for request_id in list(prompts)[::8]}
    outputs = []
    for model in (folder_model, None):
        core = make_core(model, max_num_seqs=4, kv_memory="64MiB", max_model_len=128)
        for request_id, prompt in chosen.items():
            core.add(make_request(request_id, prompt, max_output_tokens=6))
        outputs.append(outputs_of(serve(core)))
    assert outputs[0] == outputs[1]
    plain = PlainLlama.of_folder(folder)
    for request_id, prompt in chosen.items():
        selected = outputs[0][request_id]
        assert selected == plain.best([*prompt, *selected[:-1]], len(prompt) - 1)


def test_the_capital_of_france_is_paris_out_of_a_folder(
    folder: Path, folder_model: LlamaModel, make_core: MakeCore, make_request: MakeRequest
) -> None:
    tokenizer = load_tokenizer(folder)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    core = make_core(folder_model, max_num_seqs=2, kv_memory="64MiB", max_model_len=256)
    core.add(make_request("france", tuple(tokenizer.encode_chat(question)), max_output_tokens=24))
    events = serve(core)
    assert "Paris" in tokenizer.decode(outputs_of(events)["france"])
    (finished,) = (event for event in events if event.kind is EventKind.FINISHED)
    assert finished.disposition is Disposition.STOP


def test_the_tokenizer_is_that_of_the_file(folder: Path, tokenizer: Tokenizer) -> None:
    ours = load_tokenizer(folder)
    assert ours.token_bytes == tokenizer.token_bytes
    assert ours.eos_token_ids >= tokenizer.eos_token_ids
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Wie spät ist es in 東京? 12:30 👋🏽 <|im_end|>"},
    ]
    assert ours.encode_chat(chat) == tokenizer.encode_chat(chat)
    assert ours.encode_prompt("a <|im_end|> b") == tokenizer.encode_prompt("a <|im_end|> b")
