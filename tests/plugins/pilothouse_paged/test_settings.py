"""Settings of the native engine: what is wrong is named with its remedy, and needs no torch."""

import subprocess
import sys

import pytest

from pilothouse_paged.settings import check_settings, parse_settings


def test_an_unknown_setting_names_the_nearest_valid_one() -> None:
    ((key, what),) = check_settings({"max_num_seq": 8})
    assert key == "max_num_seq"
    assert "did you mean max_num_seqs?" in what


def test_a_value_of_the_wrong_type_is_an_error() -> None:
    ((key, _),) = check_settings({"block_size": "16"})
    assert key == "block_size"


def test_every_problem_is_reported() -> None:
    assert {key for key, _ in check_settings({"dtype": "int3", "kv_memory": "much"})} == {
        "dtype",
        "kv_memory",
    }


def test_a_step_too_small_for_all_sequences_is_refused() -> None:
    with pytest.raises(ValueError, match="raise the first or lower the second"):
        parse_settings({"max_num_seqs": 8, "max_num_batched_tokens": 4})


def test_by_default_a_step_has_room_for_every_decode_and_a_prefill_chunk() -> None:
    settings = parse_settings({"max_num_seqs": 10})
    assert settings.batched_tokens("cpu") == 10 + settings.prefill_tokens_per_step("cpu")


def test_a_model_length_beyond_the_models_context_is_refused() -> None:
    with pytest.raises(ValueError, match="context is 8192 tokens"):
        parse_settings({"max_model_len": 9000}).wanted_model_len(8192)


@pytest.mark.parametrize("module", ["client", "process", "settings", ""])
def test_gateway_and_control_plane_do_not_import_torch(module: str) -> None:
    name = f"pilothouse_paged.{module}".rstrip(".")
    code = f"import sys, {name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
