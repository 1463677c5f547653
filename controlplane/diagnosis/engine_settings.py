"""What engines call their own settings, in start lines and where they describe themselves."""

_NAMES = (
    # vLLM
    *("max_model_len", "max_seq_len", "max_num_seqs", "max_num_batched_tokens", "block_size"),
    *("gpu_memory_utilization", "kv_cache_dtype", "kv_cache_memory_bytes", "swap_space"),
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enforce_eager"),
    *("enable_prefix_caching", "enable_chunked_prefill", "chunked_prefill_enabled", "quantization"),
    *("num_gpu_blocks_override", "max_loras", "num_speculative_tokens", "scheduling_policy"),
    *("max_num_queued_reqs", "max_num_queued_tokens", "api_server_count", "cpu_offload_gb"),
    # SGLang
    *("mem_fraction_static", "max_running_requests", "max_total_tokens", "chunked_prefill_size"),
    *("max_prefill_tokens", "context_length", "schedule_policy", "schedule_conservativeness"),
    *("page_size", "tp_size", "dp_size", "pp_size", "cuda_graph_max_bs", "disable_cuda_graph"),
    *("disable_radix_cache", "enable_metrics", "disaggregation_mode", "speculative_algorithm"),
    *("speculative_num_steps", "speculative_num_draft_tokens", "enable_hierarchical_cache"),
    *("max_queued_requests", "watchdog_timeout", "attention_backend", "mixed_chunk"),
    # TGI
    *("max_concurrent_requests", "max_input_tokens", "max_input_length", "max_total_tokens"),
    *(
        "max_batch_prefill_tokens",
        "max_batch_total_tokens",
        "max_batch_size",
        "waiting_served_ratio",
    ),
    *("cuda_memory_fraction", "num_shard"),
    # llama.cpp
    *("n_slots", "n_ctx", "n_ctx_slot", "n_ctx_per_seq", "n_batch", "n_ubatch", "n_seq_max"),
    *("kv_unified", "n_gpu_layers", "n_parallel", "cache_ram"),
)
SETTINGS = frozenset(_NAMES)
