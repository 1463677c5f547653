"""What config may tell a vLLM server that is launched. Of vLLM 0.32 and versions before."""

from dataplane.owned_server.terms import LaunchTerms

_SCHEDULING = (
    "--max-num-batched-tokens", "--max-num-queued-reqs", "--max-num-queued-tokens",
    "--enable-chunked-prefill", "--no-enable-chunked-prefill", "--long-prefill-token-threshold",
    "--scheduling-policy", "--async-scheduling", "--no-async-scheduling", "--stream-interval",
)  # fmt: skip
_MEMORY = (
    "--block-size", "--kv-cache-dtype", "--kv-cache-memory-bytes", "--num-gpu-blocks-override",
    "--enable-prefix-caching", "--no-enable-prefix-caching", "--prefix-caching-hash-algo",
    "--swap-space", "--cpu-offload-gb", "--calculate-kv-scales", "--mm-processor-cache-gb",
)  # fmt: skip
_EXECUTION = (
    "--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--data-parallel-size",
    "-dp", "--enable-expert-parallel", "--quantization", "-q", "--enforce-eager", "--seed",
    "--attention-backend", "--moe-backend", "--max-cudagraph-capture-size", "--optimization-level",
    "--performance-mode", "--disable-custom-all-reduce", "--disable-cascade-attn",
    "--disable-hybrid-kv-cache-manager", "--model-impl", "--numa-bind",
)  # fmt: skip
_ANSWERS = (
    "--enable-auto-tool-choice", "--tool-call-parser", "--reasoning-parser", "--max-logprobs",
    "--logprobs-mode",
)  # fmt: skip
_TOLD = (
    "--enable-log-requests", "--uvicorn-log-level", "--disable-uvicorn-access-log",
    "--disable-access-log-for-endpoints", "--kv-cache-metrics",
    "--show-hidden-metrics-for-version", "--shutdown-timeout",
)  # fmt: skip

TERMS = LaunchTerms(
    program="vllm",
    product="vLLM",
    given={
        "--host": "it listens on the loopback alone",
        "--port": "Pilothouse finds a free one",
        "--model": "the Model says it",
        "--served-model-name": "the Model says it",
        "--max-model-len": "settings.max_model_len says it",
        "--max-num-seqs": "settings.max_num_seqs says it",
        "--gpu-memory-utilization": "settings.gpu_memory_utilization says it",
        "--dtype": "settings.dtype says it",
        "--enable-prompt-tokens-details": "it is always given",
    },
    arguments=frozenset({*_SCHEDULING, *_MEMORY, *_EXECUTION, *_ANSWERS, *_TOLD}),
    variables=frozenset({
        "VLLM_ATTENTION_BACKEND", "VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_NUM_OF_RESERVED_CPU",
        "VLLM_CPU_OMP_THREADS_BIND", "VLLM_ENGINE_ITERATION_TIMEOUT_S", "VLLM_LOGGING_LEVEL",
        "VLLM_LOG_STATS_INTERVAL", "VLLM_NO_USAGE_STATS", "VLLM_USE_DEEP_GEMM",
        "VLLM_USE_FLASHINFER_SAMPLER", "VLLM_USE_V1", "VLLM_WORKER_MULTIPROC_METHOD",
    }),
    start_lines={"compile": r"torch\.compile (?:takes|took) (?P<seconds>[\d.]+) s"},
    key_variable="VLLM_API_KEY",
)  # fmt: skip
"""Of `vllm serve`."""
