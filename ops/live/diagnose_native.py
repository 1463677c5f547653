"""The native engine driven into trouble for real, and whether the diagnosis names it.

    .venv/bin/python -m ops.live.diagnose_native
    .venv/bin/python -m ops.live.diagnose_native --only thrash --seconds 30

A replica with the demo model is started for each scene, kept busy by callers, and watched as
`pilothouse diagnose URL` does; one that dies is judged by its log. The memory of the replica alone
is limited, by RLIMIT_DATA. Exits 1 when a scene is named otherwise than it was made.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.files import read_inputs
from dataplane import names
from ops.live.native_replica import NotServingError, running_replica, under_load
from ops.live.scene import Load, Scene, judged, until_counted, watched

_WARM_STEPS = 30


SCENES = (
    Scene(
        name="idle",
        mechanism=Mechanism.HEALTHY,
        settings={"kv_memory": "64MiB"},
    ),
    Scene(
        name="busy",
        mechanism=Mechanism.HEALTHY,
        settings={"kv_memory": "256MiB", "max_num_seqs": 8},
        load=Load(num_callers=6, prompt_tokens=48, output_tokens=60, is_varied=True),
    ),
    Scene(
        name="overload",
        mechanism=Mechanism.QUEUE_OVERLOAD,
        settings={"kv_memory": "256MiB", "max_num_seqs": 4},
        load=Load(num_callers=40, prompt_tokens=48, output_tokens=40),
    ),
    Scene(
        # Eight sequences begin with four blocks each, and grow to twelve in a pool of some fifty.
        name="thrash",
        mechanism=Mechanism.CACHE_THRASH,
        settings={"kv_memory": "36MiB", "max_num_seqs": 12, "max_model_len": 512},
        load=Load(num_callers=12, prompt_tokens=48, output_tokens=160),
    ),
    Scene(
        name="no room for weights",
        mechanism=Mechanism.OOM_LOAD,
        settings={"kv_memory": "64MiB"},
        max_data_bytes=400 * 2**20,
    ),
)


def main() -> int:
    """Run the scenes one after the other; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=[scene.name for scene in SCENES], action="append")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each is watched")
    options = parser.parse_args()
    is_right = True
    for scene in SCENES:
        if options.only and scene.name not in options.only:
            continue
        is_right = judged(scene, asyncio.run(_play(scene, options.seconds))) and is_right
    return 0 if is_right else 1


async def _play(scene: Scene, seconds: float) -> Diagnosis:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            async with running_replica(folder, scene.settings, scene.max_data_bytes) as replica:
                if scene.load is None:
                    window = await watched(replica.metrics_url, seconds)
                else:
                    async with under_load(replica, scene.load):
                        await until_counted(
                            replica.metrics_url, names.REPLICA_STEPS_TOTAL, _WARM_STEPS
                        )
                        window = await watched(replica.metrics_url, seconds)
        except NotServingError:
            window = read_inputs([str(folder / "log")])
        return diagnose(window, BUILT_IN_RULES)


if __name__ == "__main__":
    sys.exit(main())
