"""The Triton kernel: right in the interpreter, and compilable for GPUs that are not here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# float32 sums in another order; the narrow types round inputs alike and the softmax weights
# once: 2**-11 and 2**-8 of values around one, with room for sums.
TOLERANCES = {"torch.float32": 1e-5, "torch.float16": 4e-3, "torch.bfloat16": 3e-2}
SCRIPT = Path(__file__).with_name("interpreted_paged_decode.py")


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, float]]:
    environment = os.environ | {
        "TRITON_INTERPRET": "1",
        "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")),
    }
    finished = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=110
    )
    assert finished.returncode == 0, finished.stderr
    return [(name, dtype, difference) for name, dtype, difference in json.loads(finished.stdout)]


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_the_kernel_agrees_with_the_torch_path(
    differences: list[tuple[str, str, float]], dtype: str
) -> None:
    of_dtype = {name: difference for name, other, difference in differences if other == dtype}
    assert len(of_dtype) == 5
    assert {n: d for n, d in of_dtype.items() if not d <= TOLERANCES[dtype]} == {}


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_the_kernel_compiles_without_a_gpu(
    capability: int, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from pilothouse_paged.kernels.paged_decode import ENABLE_FP_FUSION, paged_decode_kernel

    pointers = dict.fromkeys(("queries", "kv_cache", "output"), f"*{dtype}")
    tables = {"block_tables": "*i32", "context_lengths": "*i32"}
    numbers = {
        "scale": "fp32",
        "query_stride": "i32",
        "output_stride": "i32",
        "value_offset": "i64",
        "table_stride": "i32",
    }
    constants = {
        "block_size": 16,
        "num_kv_heads": 3,
        "group_size": 3,
        "head_dim": 64,
        "padded_group": 16,
        "padded_dim": 64,
        "tile": 64,
        "is_widened": False,
    }
    types = pointers | tables | numbers | dict.fromkeys(constants, "constexpr")
    signature = {name: types[name] for name in paged_decode_kernel.arg_names}
    source = ASTSource(fn=paged_decode_kernel, signature=signature, constexprs=constants)
    options = {"enable_fp_fusion": ENABLE_FP_FUSION}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    assert f".target sm_{capability}" in compiled.asm["ptx"]
    assert compiled.asm["cubin"].startswith(b"\x7fELF")
