"""What the engine cannot compute as the folder means it is refused, by file, key and remedy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dataplane.artifact import ModelFileError
from dataplane.engine import EngineRequest, SamplingParams
from dataplane.model_folder import read_model_folder
from pilothouse_paged.artifact import open_artifact
from pilothouse_paged.attention import attend_decodes
from pilothouse_paged.core import PagedEngineCore
from pilothouse_paged.folder_shape import read_folder_shape
from pilothouse_paged.model import LlamaModel
from pilothouse_paged.settings import parse_settings
from pilothouse_paged.weights import load_weights
from tests.dataplane.tiny_folder import (
    CONFIG,
    SHARDS,
    change_json,
    tiny_arrays,
    write_shards,
    write_tiny_folder,
)
from tests.plugins.pilothouse_paged.plain_llama import PlainLlama

CPU = torch.device("cpu")
PROMPT = (30, 41, 52, 63, 74, 85, 96)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_folder(tmp_path / "folder")


def generate(folder: Path, num_tokens: int = 12, **settings: Any) -> list[int]:
    core = PagedEngineCore(
        str(folder), parse_settings({"device": "cpu", "kv_memory": "1MiB", **settings})
    )
    core.load()
    sampling = SamplingParams(max_output_tokens=num_tokens, temperature=0.0, ignore_eos=True)
    core.add(
        EngineRequest(
            request_id="tiny",
            attempt=0,
            endpoint="/v1/completions",
            prompt_token_ids=PROMPT,
            isolation_key="",
            sampling=sampling,
        )
    )
    selected: list[int] = []
    while core.has_work:
        selected += [token_id for event in core.schedule() for token_id in event.token_ids]
        selected += [token_id for event in core.run() for token_id in event.token_ids]
    return selected


def plain(folder: Path, selected: list[int]) -> list[int]:
    return PlainLlama.of_folder(folder).best([*PROMPT, *selected[:-1]], len(PROMPT) - 1)


def rewrite(folder: Path, dtype: torch.dtype) -> None:
    for shard in SHARDS:
        tensors = load_file(folder / shard)
        save_file({name: each.to(dtype) for name, each in tensors.items()}, folder / shard)


def test_a_sharded_folder_selects_what_a_plain_forward_pass_selects(folder: Path) -> None:
    selected = generate(folder)
    assert len(set(selected)) > 3
    assert selected == plain(folder, selected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_weights_are_widened_without_loss(folder: Path, dtype: torch.dtype) -> None:
    rewrite(folder, dtype)
    selected = generate(folder)
    assert selected == plain(folder, selected)


def test_narrow_weights_stay_as_they_are_where_the_engine_is_narrow(folder: Path) -> None:
    rewrite(folder, torch.bfloat16)
    shape, source = open_artifact(folder)
    weights = load_weights(source, shape, torch.bfloat16, CPU)
    stored = {**load_file(folder / SHARDS[0]), **load_file(folder / SHARDS[1])}
    assert torch.equal(weights.output, stored["lm_head.weight"])
    assert torch.equal(weights.layers[1].down, stored["model.layers.1.mlp.down_proj.weight"])
    assert weights.num_bytes == sum(each.nbytes for each in stored.values())


def test_tied_embeddings_count_once_and_a_stored_copy_is_ignored(folder: Path) -> None:
    change_json(folder / "config.json", tie_word_embeddings=True)
    shape, source = open_artifact(folder)
    weights = load_weights(source, shape, torch.float32, CPU)
    assert weights.output is weights.embedding
    total = sum(each.nbytes for each in tiny_arrays(CONFIG).values())
    assert weights.num_bytes == total - 288 * 32 * 4
    selected = generate(folder)
    assert selected == plain(folder, selected)


def test_weights_outlive_their_files(folder: Path) -> None:
    shape, source = open_artifact(folder)
    model = LlamaModel(shape, load_weights(source, shape, torch.float32, CPU), attend_decodes)
    before = model.weights.layers[0].qkv.clone()
    for shard in SHARDS:
        with (folder / shard).open("r+b") as file:
            file.write(bytes(4096))
    assert torch.equal(model.weights.layers[0].qkv, before)


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_scaling": {"rope_type": "default"}},
        {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        {"head_dim": None, "intermediate_size": 48, "sliding_window": None},
        {"dtype": "bfloat16", "pretraining_tp": 1, "use_cache": True, "architectures": None},
    ],
)
def test_keys_that_change_nothing_are_taken(folder: Path, keys: Mapping[str, Any]) -> None:
    expected = read_folder_shape(read_model_folder(folder))
    change_json(folder / "config.json", **keys)
    assert read_folder_shape(read_model_folder(folder)) == expected


def test_the_rotary_base_of_transformers_5_is_read(folder: Path) -> None:
    change_json(folder / "config.json", rope_parameters={"rope_theta": 77.0}, rope_theta=None)
    assert read_folder_shape(read_model_folder(folder)).rope_base == 77.0


def test_every_end_token_of_a_list_ends_an_output(folder: Path) -> None:
    assert read_folder_shape(read_model_folder(folder)).end_token_ids == {0, 2}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"model_type": "qwen3"}, "model_type is 'qwen3'; the paged engine runs 'llama' only"),
        ({"model_type": None}, "model_type is None"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures is .*supported is"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config is .*not supp"),
        ({"sliding_window": 4096}, "sliding_window is 4096, which is not supported; .*absent"),
        ({"num_local_experts": 8}, "num_local_experts is 8, which is not supported"),
        ({"attention_bias": True}, "attention_bias is True, .* supported: absent or False"),
        ({"mlp_bias": True}, "mlp_bias is True, which is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu', .* supported: absent or 'silu'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "rotary scaling 'llama3'"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rotary scaling 'linear'"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters asks for .*'yarn'"),
        ({"rope_scaling": 2}, "rope_scaling is 2; it must be an object"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor must be 1"),
        ({"rope_theta": "big"}, "rope_theta is 'big'; it must be a number above 0"),
        ({"rope_theta": None}, "rope_theta is None"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True; it must be a whole number"),
        ({"hidden_size": -4}, "hidden_size is -4"),
        ({"hidden_size": None}, "it has no key hidden_size"),
        ({"num_attention_heads": 2**40}, "num_attention_heads is 1099511627776"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 cannot share num_key_value_heads 3"),
        ({"head_dim": 7}, "head_dim is 7; rotary positions need an even one"),
        ({"rms_norm_eps": 0}, "rms_norm_eps is 0"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings is 'no'"),
    ],
)
def test_what_is_not_built_is_refused_by_key(
    folder: Path, keys: Mapping[str, Any], says: str
) -> None:
    change_json(folder / "config.json", **keys)
    with pytest.raises(ModelFileError, match=rf"config\.json: .*{says}"):
        open_artifact(folder)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            {"num_hidden_layers": 2**31 - 1},
            r"lack tensor model\.layers\.2\.input_layernorm\.weight",
        ),
        ({"num_hidden_layers": 1}, r"safetensors: 9 tensors are of no use .*model\.layers\.1"),
        ({"intermediate_size": 2**31 - 1}, r"gate_proj\.weight is \(48, 32\), but config\.json"),
        ({"num_key_value_heads": 4}, r"k_proj\.weight is \(16, 32\), but config.json .*\(32, 32\)"),
    ],
)
def test_a_config_that_does_not_fit_the_tensors_takes_no_memory(
    folder: Path, keys: Mapping[str, Any], says: str
) -> None:
    change_json(folder / "config.json", **keys)
    with pytest.raises(ModelFileError, match=says):
        open_artifact(folder)


def test_a_tensor_of_another_dtype_is_refused(folder: Path) -> None:
    arrays = tiny_arrays(CONFIG)
    write_shards(folder, {**arrays, "lm_head.weight": arrays["lm_head.weight"].astype(np.int8)})
    with pytest.raises(ModelFileError, match=r"lm_head\.weight is of dtype I8; supported: F32"):
        open_artifact(folder)


def test_an_output_matrix_that_is_missing_is_named(folder: Path) -> None:
    arrays = tiny_arrays(CONFIG)
    del arrays["lm_head.weight"]
    write_shards(folder, arrays)
    with pytest.raises(ModelFileError, match=r"lack tensor lm_head\.weight"):
        open_artifact(folder)


def test_a_bias_that_the_config_keeps_silent_about_is_refused(folder: Path) -> None:
    bias = {"model.layers.0.self_attn.q_proj.bias": np.ones(32, np.float32)}
    write_shards(folder, {**tiny_arrays(CONFIG), **bias})
    with pytest.raises(ModelFileError, match=r"such as model\.layers\.0\.self_attn\.q_proj\.bias"):
        open_artifact(folder)


def test_tables_of_older_folders_are_passed_over(folder: Path) -> None:
    table = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)}
    write_shards(folder, {**tiny_arrays(CONFIG), **table})
    open_artifact(folder)


def test_a_shard_that_changes_before_it_is_loaded_is_named(folder: Path) -> None:
    shape, source = open_artifact(folder)
    (folder / SHARDS[1]).write_bytes(bytes(20))
    with pytest.raises(ModelFileError, match=f"{SHARDS[1]}: it changed while it was loaded"):
        load_weights(source, shape, torch.float32, CPU)
