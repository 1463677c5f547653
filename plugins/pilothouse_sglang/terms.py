"""What config may tell an SGLang server that is launched. By SGLang 0.5."""

from dataplane.owned_server.terms import LaunchTerms

_SCHEDULING = (
    "--chunked-prefill-size", "--max-prefill-tokens", "--max-queued-requests",
    "--schedule-policy", "--schedule-conservativeness", "--enable-priority-scheduling",
    "--enable-mixed-chunk", "--disable-overlap-schedule", "--stream-interval",
    "--num-continuous-decode-steps",
)  # fmt: skip
_MEMORY = (
    "--max-total-tokens", "--page-size", "--kv-cache-dtype", "--disable-radix-cache",
    "--radix-eviction-policy", "--enable-hierarchical-cache", "--hicache-ratio", "--hicache-size",
    "--cpu-offload-gb",
)  # fmt: skip
_EXECUTION = (
    "--tensor-parallel-size", "--tp-size", "--tp", "--data-parallel-size", "--dp-size", "--dp",
    "--pipeline-parallel-size", "--pp-size", "--expert-parallel-size", "--ep-size", "--ep",
    "--enable-dp-attention", "--device", "--quantization", "--attention-backend",
    "--sampling-backend", "--grammar-backend", "--moe-runner-backend", "--disable-cuda-graph",
    "--cuda-graph-max-bs", "--enable-torch-compile", "--disable-custom-all-reduce",
    "--random-seed", "--skip-server-warmup",
)  # fmt: skip
_TOLD = (
    "--tool-call-parser", "--reasoning-parser", "--log-level", "--log-level-http",
    "--decode-log-interval", "--watchdog-timeout",
)  # fmt: skip

TERMS = LaunchTerms(
    program="python3",
    product="SGLang",
    given={
        "--host": "it listens on the loopback alone",
        "--port": "Pilothouse finds a free one",
        "--model-path": "the Model says it",
        "--model": "the Model says it",
        "--served-model-name": "the Model says it",
        "--context-length": "settings.max_model_len says it",
        "--max-running-requests": "settings.max_num_seqs says it",
        "--mem-fraction-static": "settings.mem_fraction_static says it",
        "--dtype": "settings.dtype says it",
        "--enable-metrics": "it is always given",
        "--enable-cache-report": "it is always given",
    },
    arguments=frozenset({*_SCHEDULING, *_MEMORY, *_EXECUTION, *_TOLD}),
    variables=frozenset({"SGLANG_LOG_MS", "SGLANG_SET_CPU_AFFINITY"}),
)
"""Of `python3 -m sglang.launch_server`."""
