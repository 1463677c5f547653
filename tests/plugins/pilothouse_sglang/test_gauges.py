"""What SGLang's metrics say of its KV cache."""

import pytest

from dataplane.engine_metrics.scrape import read_scrape
from dataplane.engine_metrics.tables.sglang import SGLANG
from pilothouse_sglang.gauges import SIGNALS, read_stats


@pytest.mark.parametrize(
    ("capacity", "used", "blocks", "free"),
    [(1600, 400, 100, 75), (1600, 1600, 100, 0), (0, 0, 0, 0), (400, 1600, None, None)],
)
def test_a_full_cache_and_an_empty_one_are_known_and_more_than_there_is_is_not(
    capacity: int, used: int, blocks: int | None, free: int | None
) -> None:
    page = f"sglang:max_total_num_tokens {capacity}\nsglang:num_used_tokens {used}\n"
    stats = read_stats(read_scrape(SGLANG, page, SIGNALS), page_size=16)

    assert (stats.num_blocks, stats.num_free_blocks) == (blocks, free)
