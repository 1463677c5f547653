"""Where the histograms of latencies of engines have their edges, as they are without configuration.

A histogram tells how many requests took at most so long for its edges alone. Sources: vLLM's
`vllm/v1/metrics/loggers.py` of 0.32, SGLang's `srt/observability/metrics_collector.py`. Both can
be configured: what the page of a running engine shows goes before this.
"""

from collections.abc import Mapping

VLLM_TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
VLLM_TOKEN = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
)  # fmt: skip
VLLM_REQUEST = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
SGLANG_TTFT = (
    0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0,
    400.0,
)  # fmt: skip
SGLANG_TOKEN = (
    0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2,
    0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0,
)  # fmt: skip
SGLANG_REQUEST = (*SGLANG_TTFT, 600.0, 1200.0, 1800.0, 2400.0)

EdgesByName = Mapping[str, tuple[float, ...]]
"""Upper bounds without infinity, in the unit of the export, by the histogram's exported name."""

KNOWN_EDGES: EdgesByName = {
    "vllm:time_to_first_token_seconds": VLLM_TTFT,
    "vllm:request_time_per_output_token_seconds": VLLM_TOKEN,
    "vllm:e2e_request_latency_seconds": VLLM_REQUEST,
    "sglang:time_to_first_token_seconds": SGLANG_TTFT,
    "sglang:e2e_request_latency_seconds": SGLANG_REQUEST,
}
