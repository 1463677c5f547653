"""vLLM on the CPU driven into trouble for real, and whether the diagnosis names it.

    .venv/bin/python -m ops.live.diagnose_vllm --vllm VENV/bin/vllm --model FOLDER
    .venv/bin/python -m ops.live.diagnose_vllm --vllm VENV/bin/vllm --model FOLDER --only thrash

How vLLM and the model's folder are made is told by `ops/calibration/calibrate_vllm.py`. For each
scene a server is started, kept busy by callers, and watched as `pilothouse diagnose URL` does. Each
takes about a minute to start. Exits 1 when a scene is named otherwise than it was made.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import httpx

from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from ops.calibration.service import MODEL
from ops.calibration.vllm_server import VllmPlan, serving_vllm
from ops.live.scene import Load, Scene, judged, until_counted, watched

_WARM_TOKENS = 1500
"""Every batch of a new shape takes a second or two the first time, on the CPU."""
_VOCABULARY = 40_000

SCENES = (
    Scene(
        name="busy",
        mechanism=Mechanism.HEALTHY,
        settings={"max_num_seqs": 8},
        load=Load(num_callers=6, prompt_tokens=64, output_tokens=96, is_varied=True),
    ),
    Scene(
        name="overload",
        mechanism=Mechanism.QUEUE_OVERLOAD,
        settings={"max_num_seqs": 4},
        load=Load(num_callers=40, prompt_tokens=64, output_tokens=48),
    ),
    Scene(
        # Blocks of 128 tokens on the CPU: twelve sequences begin with one and grow to three.
        name="thrash",
        mechanism=Mechanism.CACHE_THRASH,
        settings={"max_num_seqs": 12, "num_kv_blocks": 16},
        load=Load(num_callers=12, prompt_tokens=64, output_tokens=300),
    ),
)


def main() -> int:
    """Run the scenes one after the other; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vllm", type=Path, required=True, help="the `vllm` command")
    parser.add_argument("--model", type=Path, required=True, help="a folder of safetensors")
    parser.add_argument("--only", choices=[scene.name for scene in SCENES], action="append")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each is watched")
    options = parser.parse_args()
    is_right = True
    for scene in SCENES:
        if options.only and scene.name not in options.only:
            continue
        is_right = judged(scene, _play(scene, options)) and is_right
    return 0 if is_right else 1


def _play(scene: Scene, options: argparse.Namespace) -> Diagnosis:
    plan = VllmPlan(
        executable=options.vllm,
        model=options.model,
        max_num_seqs=scene.settings["max_num_seqs"],
        max_num_batched_tokens=512,
        max_model_len=512,
        num_threads=2,
        num_kv_blocks=scene.settings.get("num_kv_blocks"),
    )
    with tempfile.TemporaryDirectory() as name, serving_vllm(plan, None, Path(name)) as server:
        return asyncio.run(_watch(server.url, scene.load, options.seconds))


async def _watch(url: str, load: Load | None, seconds: float) -> Diagnosis:
    async with _under_load(url, load):
        await until_counted(f"{url}/metrics", "vllm:generation_tokens_total", _WARM_TOKENS)
        window = await watched(url, seconds)
    return diagnose(window, BUILT_IN_RULES)


@contextlib.asynccontextmanager
async def _under_load(url: str, load: Load | None) -> AsyncIterator[None]:
    if load is None:
        yield
        return
    random = Random(1)
    async with httpx.AsyncClient(base_url=url, timeout=600) as http:
        callers = [
            asyncio.create_task(_call(http, load, Random(random.random())))
            for _ in range(load.num_callers)
        ]
        try:
            yield
        finally:
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)


async def _call(http: httpx.AsyncClient, load: Load, random: Random) -> None:
    while True:
        answer = await http.post(
            "/v1/completions",
            json={
                "model": MODEL,
                "prompt": [random.randrange(100, _VOCABULARY) for _ in range(load.prompt_tokens)],
                "max_tokens": load.next_output_tokens(random),
                "temperature": 0,
                "ignore_eos": True,
            },
        )
        answer.raise_for_status()


if __name__ == "__main__":
    sys.exit(main())
