"""What config may tell a `llama-server` that is launched. Of llama.cpp's newest versions and those
before."""

from dataplane.owned_server.terms import LaunchTerms

_CPU = (
    "--threads-batch", "-tb", "--threads-http", "--cpu-mask", "-C", "--cpu-range", "-Cr",
    "--cpu-strict", "--prio", "--poll", "--numa",
)  # fmt: skip
_MEMORY = (
    "--batch-size", "-b", "--ubatch-size", "-ub", "--flash-attn", "-fa", "--cache-type-k", "-ctk",
    "--cache-type-v", "-ctv", "--swa-full", "--kv-offload", "--no-kv-offload", "-nkvo",
    "--kv-unified", "-kvu", "--no-kv-unified", "--cache-ram", "-cram", "--ctx-checkpoints",
    "--cache-prompt", "--no-cache-prompt", "--cache-reuse", "--slot-prompt-similarity", "-sps",
    "--mlock", "--no-mmap", "--load-mode", "-lm", "--no-repack", "--context-shift",
    "--no-context-shift", "--keep", "--fit", "-fit", "--cont-batching", "--no-cont-batching",
    "--defrag-thold", "-dt",
)  # fmt: skip
_DEVICES = (
    "--device", "-dev", "--split-mode", "-sm", "--tensor-split", "-ts", "--main-gpu", "-mg",
    "--cpu-moe", "-cmoe", "--n-cpu-moe", "-ncmoe", "--op-offload", "--no-op-offload",
)  # fmt: skip
_MODEL = (
    "--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx",
    "--yarn-ext-factor", "--yarn-attn-factor", "--jinja", "--no-jinja", "--reasoning-format",
    "--reasoning-budget", "--chat-template", "--seed", "-s", "--predict", "-n", "--warmup",
    "--no-warmup", "--spec-type", "--draft-max", "--draft-min",
)  # fmt: skip
_TOLD = (
    "--timeout", "-to", "--slots", "--no-slots", "--no-webui", "--verbosity", "-lv",
    "--log-prefix", "--log-timestamps", "--log-disable", "--perf", "--no-perf", "--offline",
    "--check-tensors",
)  # fmt: skip

TERMS = LaunchTerms(
    program="llama-server",
    product="llama.cpp",
    given={
        "--host": "it listens on the loopback alone",
        "--port": "Pilothouse finds a free one",
        "--model": "the Model says it",
        "-m": "the Model says it",
        "--alias": "the Model says it",
        "-a": "the Model says it",
        "--ctx-size": "settings.max_model_len says it, for each of settings.max_num_seqs slots",
        "-c": "settings.max_model_len says it, for each of settings.max_num_seqs slots",
        "--parallel": "settings.max_num_seqs says it",
        "-np": "settings.max_num_seqs says it",
        "--threads": "settings.num_threads says it",
        "-t": "settings.num_threads says it",
        "--gpu-layers": "settings.num_gpu_layers says it",
        "--n-gpu-layers": "settings.num_gpu_layers says it",
        "-ngl": "settings.num_gpu_layers says it",
        "--metrics": "it is always given",
    },
    arguments=frozenset({*_CPU, *_MEMORY, *_DEVICES, *_MODEL, *_TOLD}),
    variables=frozenset({"GGML_CUDA_ENABLE_UNIFIED_MEMORY", "GGML_CUDA_FORCE_MMQ"}),
    key_variable="LLAMA_API_KEY",
)
"""Its `--chat-template` takes the name of a template that it has; a file has another option."""
