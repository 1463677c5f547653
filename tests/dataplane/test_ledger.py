from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from dataplane.ledger import (
    GIB,
    GrowingContexts,
    MemoryLedger,
    ModelShape,
    num_physical_blocks,
    page,
    weights_bytes,
)
from dataplane.scheduling.block_pool import BlockPool

GOLDEN: dict[str, Any] = YAML(typ="safe").load(
    Path(__file__).parents[1].joinpath("golden", "ledger.yaml")
)
TEACHING = GOLDEN["teaching_7b"]["given"]
EXPECTED = GOLDEN["teaching_7b"]["expect"]


def teaching_shape(bytes_per_kv_element: int | None = None) -> ModelShape:
    return ModelShape(
        num_layers=TEACHING["layers"],
        num_kv_heads=TEACHING["kv_heads"],
        head_dim=TEACHING["head_dim"],
        bytes_per_kv_element=bytes_per_kv_element or TEACHING["bytes_per_kv_element"],
    )


def teaching_ledger(
    *, bytes_per_parameter: int | None = None, bytes_per_kv_element: int | None = None
) -> MemoryLedger:
    return MemoryLedger(
        device_bytes=TEACHING["device_gib"] * GIB,
        weights_bytes=weights_bytes(
            TEACHING["parameters"], bytes_per_parameter or TEACHING["bytes_per_parameter"]
        ),
        workspace_bytes=int(TEACHING["runtime_peak_gib"] * GIB),
        reserve_bytes=int(TEACHING["safety_reserve_gib"] * GIB),
        kv_bytes_per_token=teaching_shape(bytes_per_kv_element).kv_bytes_per_token(),
        block_size=16,
    )


def test_weights_take_parameters_times_their_width() -> None:
    ledger = teaching_ledger()
    assert ledger.weights_bytes == EXPECTED["weights_bytes"]
    assert round(ledger.weights_bytes / GIB, 2) == EXPECTED["weights_gib"]


def test_kv_of_a_token_and_of_a_request_follow_from_the_shape() -> None:
    shape = teaching_shape()
    per_request = shape.kv_bytes(TEACHING["tokens_per_request"])
    assert shape.kv_bytes_per_token() == EXPECTED["kv_bytes_per_token"]
    assert per_request == EXPECTED["kv_bytes_per_request"]
    assert per_request / GIB == EXPECTED["kv_gib_per_request"]
    assert TEACHING["resident_requests"] * per_request / GIB == EXPECTED["kv_gib_total"]


def test_committed_and_reserved_memory_add_up() -> None:
    ledger = teaching_ledger()
    kv = TEACHING["resident_requests"] * teaching_shape().kv_bytes(TEACHING["tokens_per_request"])
    total = round((ledger.committed_bytes + kv) / GIB, 2)
    assert total == EXPECTED["committed_plus_reserved_gib"]


def test_memory_sets_a_ceiling_on_resident_requests() -> None:
    ceiling = teaching_ledger().max_resident_requests(TEACHING["tokens_per_request"])
    assert ceiling == EXPECTED["memory_ceiling_requests"]


def test_narrower_kv_or_weights_raise_the_ceiling() -> None:
    expected = GOLDEN["variants_of_teaching_7b"]["memory_ceiling_requests"]
    tokens = TEACHING["tokens_per_request"]
    int8_kv = teaching_ledger(bytes_per_kv_element=1)
    int8_weights = teaching_ledger(bytes_per_parameter=1)
    assert int8_kv.max_resident_requests(tokens) == expected["kv_int8"]
    assert int8_weights.max_resident_requests(tokens) == expected["weights_int8"]


def test_tensor_parallelism_splits_heads_and_then_replicates_them() -> None:
    expected = GOLDEN["variants_of_teaching_7b"]["kv_bytes_per_token_per_device"]
    for name, per_device in expected.items():
        size = int(name.removeprefix("tensor_parallel_"))
        assert teaching_shape().kv_bytes_per_token(size) == per_device, name


@pytest.mark.parametrize("size", [0, 3, 12])
def test_heads_that_cannot_be_spread_evenly_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=str(size)):
        teaching_shape().kv_bytes_per_token(size)


def test_paging_wastes_only_the_ends_of_last_blocks() -> None:
    live = GOLDEN["paging"]["given"]["live_tokens"]
    for row in GOLDEN["paging"]["expect"]:
        paging = page(live, row["block_size"])
        assert list(paging.num_blocks) == row["blocks"]
        assert paging.num_slots == row["slots"]
        assert paging.num_unused_slots == row["unused_slots"]
        assert paging.num_block_table_entries == row["block_table_entries"]


def test_contexts_that_grow_together_run_over_the_budget() -> None:
    given_, expected = GOLDEN["growing_contexts"]["given"], GOLDEN["growing_contexts"]["expect"]
    budget = given_["budget_gib"] * GIB
    contexts = GrowingContexts(
        kv_bytes_per_token=given_["kv_bytes_per_token"],
        budget_bytes=budget,
        num_active=given_["active"],
        short_tokens=given_["short_tokens"],
        long_tokens=given_["long_tokens"],
    )
    assert contexts.kv_bytes(0) / GIB == expected["all_short_gib"]
    assert contexts.bytes_each_long_adds / GIB == expected["each_long_adds_gib"]
    assert contexts.max_long == expected["long_count_that_still_fits"]
    assert contexts.kv_bytes(expected["first_long_count_over_budget"]) > budget
    assert contexts.kv_bytes(expected["long_count_that_still_fits"]) <= budget
    assert contexts.kv_bytes(16) / GIB == expected["sixteen_long_gib"]


def test_no_growth_is_promised_when_not_even_short_contexts_fit() -> None:
    contexts = GrowingContexts(
        kv_bytes_per_token=8, budget_bytes=79, num_active=2, short_tokens=5, long_tokens=6
    )
    assert contexts.max_long is None


def test_never_more_contexts_grow_than_are_active() -> None:
    contexts = GrowingContexts(
        kv_bytes_per_token=1, budget_bytes=10_000, num_active=3, short_tokens=5, long_tokens=6
    )
    assert contexts.max_long == 3


def test_shared_blocks_are_counted_once_until_one_sequence_diverges() -> None:
    given_, expected = GOLDEN["copy_on_write"]["given"], GOLDEN["copy_on_write"]["expect"]
    pool = BlockPool(num_blocks=8, block_size=given_["block_size"])
    first = pool.allocate(pool.num_blocks_for(given_["prompt_tokens"]))
    assert first is not None
    tables = [first, *(pool.fork(first) for _ in range(given_["sequences"] - 1))]
    assert num_physical_blocks(tables) == expected["blocks_while_shared"]
    assert pool.num_referenced == expected["blocks_while_shared"]

    last = first[-1]
    writable = pool.make_writable(tables[1], len(first) - 1)

    assert writable is not None
    assert writable.copy_from == last
    assert num_physical_blocks(tables) == expected["blocks_after_one_diverges"]
    assert pool.num_referenced == expected["blocks_after_one_diverges"]
    pool.check_integrity(tables)


def test_sliding_layers_keep_a_bounded_number_of_positions() -> None:
    shape = ModelShape(
        num_layers=4, num_kv_heads=2, head_dim=8, num_sliding_layers=3, sliding_window=10
    )
    per_layer = 2 * 2 * 8 * 2
    assert shape.kv_bytes(10) == 10 * shape.kv_bytes_per_token()
    assert shape.kv_bytes(100) == (100 * 1 + 10 * 3) * per_layer


def test_sliding_layers_without_a_window_are_refused() -> None:
    with pytest.raises(ValueError, match="sliding_window"):
        ModelShape(num_layers=4, num_kv_heads=2, head_dim=8, num_sliding_layers=3)


def test_widths_below_a_byte_are_exact() -> None:
    assert weights_bytes(135_000_001, Fraction(5, 8)) == 84_375_001  # rounded up


def test_every_kind_of_memory_is_a_line_of_its_own() -> None:
    ledger = MemoryLedger(
        device_bytes=1000,
        weights_bytes=100,
        weight_metadata_bytes=1,
        workspace_bytes=2,
        graph_bytes=3,
        communication_bytes=4,
        fragmentation_bytes=5,
        reserve_bytes=6,
        kv_bytes_per_token=10,
        block_size=4,
    )
    assert ledger.lines(num_blocks=21) == {
        "weights": 100,
        "weight_metadata": 1,
        "workspace": 2,
        "graph": 3,
        "communication": 4,
        "fragmentation": 5,
        "reserve": 6,
        "kv": 840,
        "unassigned": 39,
    }
    assert ledger.num_blocks_that_fit == 21


def test_a_pool_beyond_the_budget_is_refused_with_what_would_fit() -> None:
    ledger = teaching_ledger()
    fits = ledger.num_blocks_that_fit
    with pytest.raises(ValueError, match=f"{fits} blocks fit"):
        ledger.lines(fits + 1)


def test_a_device_too_small_for_its_weights_holds_no_blocks_and_says_by_how_much() -> None:
    ledger = MemoryLedger(device_bytes=90, weights_bytes=100, kv_bytes_per_token=10, block_size=4)
    assert ledger.num_blocks_that_fit == 0
    assert ledger.kv_budget_bytes == -10


def test_negative_lines_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="workspace_bytes is -1"):
        MemoryLedger(
            device_bytes=90,
            weights_bytes=1,
            workspace_bytes=-1,
            kv_bytes_per_token=10,
            block_size=4,
        )


@given(
    device=st.integers(0, 10_000),
    weights=st.integers(0, 5_000),
    reserve=st.integers(0, 5_000),
    per_token=st.integers(1, 64),
    block_size=st.integers(1, 32),
)
def test_the_lines_always_sum_to_the_device_and_one_more_block_never_fits(
    device: int, weights: int, reserve: int, per_token: int, block_size: int
) -> None:
    ledger = MemoryLedger(
        device_bytes=device,
        weights_bytes=weights,
        reserve_bytes=reserve,
        kv_bytes_per_token=per_token,
        block_size=block_size,
    )
    fits = ledger.num_blocks_that_fit
    assert ledger.committed_bytes + (fits + 1) * ledger.bytes_per_block > device
    if ledger.kv_budget_bytes >= 0:
        assert sum(ledger.lines(fits).values()) == device
