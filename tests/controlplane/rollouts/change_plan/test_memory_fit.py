"""Whether other settings fit is reckoned from what a replica reports, or said to be unknown."""

from dataclasses import replace
from typing import Any

import pytest

from controlplane.rollouts.change_plan.memory_fit import MemoryFit, fit_memory
from dataplane.engine import EngineStats
from tests.controlplane.rollouts.change_plan.test_turnover import TEMPLATE

KV_TOKEN = 100
# 20 blocks of 16 tokens, and less than a block is left.
LEDGER = {
    "weights": 50_000, "workspace": 5_000, "reserve": 2_000, "kv": 20 * 16 * KV_TOKEN,
    "unassigned": 500,
}  # fmt: skip
STATS = EngineStats(age_seconds=0.0, num_blocks=20, block_size=16, ledger=LEDGER)


def fit(
    before: dict[str, Any], after: dict[str, Any], stats: EngineStats | None = STATS, **spec: Any
) -> MemoryFit:
    running = replace(TEMPLATE, settings=before)
    return fit_memory("r1", running, replace(TEMPLATE, settings=after, **spec), stats)


def test_what_is_left_is_for_blocks_of_another_size() -> None:
    found = fit({}, {"block_size": 32})

    assert found.fits is True
    assert found.num_blocks_after == 10
    assert found.kv_bytes_after == 10 * 32 * KV_TOKEN
    assert found.kv_bytes_before == LEDGER["kv"]


@pytest.mark.parametrize(
    ("size", "fits", "num_blocks"),
    [("31KiB", True, 19), ("32KiB", True, 20), ("33KiB", False, 21)],
)
def test_a_pool_that_is_asked_for_fits_or_does_not(size: str, fits: bool, num_blocks: int) -> None:
    # 32,500 bytes are left for KV, and a block takes 1,600.
    found = fit({}, {"kv_memory": size})

    assert (found.fits, found.num_blocks_after) == (fits, num_blocks)


def test_one_sequence_must_fit_into_the_pool() -> None:
    before, after = {"max_model_len": 320}, {"max_model_len": 300, "kv_memory": "16KiB"}

    found = fit(before, after)

    assert found.fits is False
    assert "19 KV blocks" in found.why


@pytest.mark.parametrize(
    ("before", "after", "spec"),
    [
        ({}, {"max_num_seqs": 64}, {}),
        ({}, {"dtype": "bfloat16"}, {}),
        ({"max_model_len": 100}, {"max_model_len": 200}, {}),
        ({"kv_memory": "16KiB"}, {}, {}),
        ({"kv_memory": "16KiB"}, {"kv_memory": "32KiB"}, {}),
        ({"block_size": 32}, {}, {}),
        ({}, {}, {"artifact": "/other"}),
        ({}, {}, {"engine": "vllm"}),
    ],
)
def test_what_only_a_start_measures_is_unknown(
    before: dict[str, Any], after: dict[str, Any], spec: dict[str, Any]
) -> None:
    found = fit(before, after, **spec)

    assert found.fits is None
    assert found.why


def test_a_replica_that_tells_no_ledger_tells_nothing() -> None:
    assert fit({}, {"block_size": 32}, stats=None).fits is None
    assert fit({}, {"block_size": 32}, stats=EngineStats(age_seconds=0.0)).fits is None
