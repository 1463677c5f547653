"""What a prefill replica and a decode replica export: each its own work, and nothing of the other.

A step takes one second, and a prompt half a second on the link.
"""

from collections.abc import Iterator

import pytest

from dataplane.simulation.observer.dialects import DIALECTS, get_dialect
from dataplane.simulation.observer.fleet_exporters import FleetExporters
from dataplane.simulation.observer.lines import Scraped, Seen
from tests.dataplane.simulation.small_fleet import call
from tests.dataplane.simulation.test_phased_replicas import DECODE, PREFILL, phased

NUM_REQUESTS, NUM_PROMPT, NUM_OUTPUT = 3, 5, 7


LEFT = (
    "vllm:num_requests_running",
    "vllm:kv_cache_usage_perc",
    "vllm:gpu_cache_usage_perc",
    "sglang:num_running_reqs",
    "sglang:token_usage",
    "llamacpp:requests_processing",
    "pilothouse_replica_active_sequences",
    "pilothouse_replica_kv_blocks_referenced",
)


class Observed:
    """Three requests, and the last scrape of each replica."""

    def __init__(self, dialect: str) -> None:
        fleet, _ = phased()
        self._texts: dict[str, str] = {}
        exporters = FleetExporters(fleet, lambda _: get_dialect(dialect), self._take)
        # The processes run already: they are told of what follows.
        for replica_id, exporter in exporters.by_replica.items():
            replica = fleet.replicas[replica_id]
            assert replica.engine is not None
            exporter.started(replica.engine.scheduler, replica.cost)
        exporters.observe(1.0, 60.0)
        for _ in range(NUM_REQUESTS):
            fleet.put_call(call(num_output_tokens=NUM_OUTPUT, num_prompt_tokens=NUM_PROMPT))
        fleet.run_until(60.0)

    def _take(self, seen: Seen) -> None:
        if isinstance(seen, Scraped):
            self._texts[seen.target] = seen.text

    def values(self, replica_id: str, name: str) -> Iterator[float]:
        for line in self._texts[replica_id].split("\n"):
            if line.startswith((f"{name}{{", f"{name} ")):
                yield float(line.rpartition(" ")[2])

    def of_both(self, name: str) -> tuple[float, float]:
        return sum(self.values(PREFILL, name)), sum(self.values(DECODE, name))


def test_tokens_are_counted_where_they_were_computed() -> None:
    seen = Observed("vllm")
    assert seen.of_both("vllm:generation_tokens_total") == (3, 3 * (NUM_OUTPUT - 1))
    assert seen.of_both("vllm:prompt_tokens_total") == (3 * NUM_PROMPT, 0)
    assert seen.of_both("vllm:request_success_total") == (3, 3)
    assert seen.of_both("vllm:request_generation_tokens_sum") == (3, 3 * (NUM_OUTPUT - 1))
    assert seen.of_both("vllm:request_prefill_kv_computed_tokens_sum") == (3 * NUM_PROMPT, 0)


def test_first_tokens_are_those_of_the_prefill_replica_and_gaps_those_of_the_other() -> None:
    seen = Observed("vllm")
    assert seen.of_both("vllm:time_to_first_token_seconds_count") == (3, 0)
    assert seen.of_both("vllm:inter_token_latency_seconds_count") == (0, 3 * (NUM_OUTPUT - 1))
    # A step is a second: neither the queue between the phases nor the link is in any gap.
    assert seen.of_both("vllm:inter_token_latency_seconds_sum") == (0, 3 * (NUM_OUTPUT - 1))
    assert seen.of_both("vllm:request_time_per_output_token_seconds_sum") == (0, 3)
    assert seen.of_both("vllm:request_prefill_time_seconds_sum") == (3, 0)


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_no_dialect_shows_anything_left_when_all_has_ended(dialect: str) -> None:
    seen = Observed(dialect)
    left = [
        value for each in (PREFILL, DECODE) for name in LEFT for value in seen.values(each, name)
    ]
    assert left
    assert not any(left)
