"""Lines as engines, kernels and platforms write them, and what is taken out of each."""

import pytest

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.sources.log import read_log
from controlplane.diagnosis.sources.log.tables import SHAPES

K = LogKind
MIB, GIB = 1024.0**2, 1024.0**3

VLLM = [
    ("INFO 11-30 08:00:00 [api_server.py:1] vLLM API server version 0.20.1", K.STARTING, {}),
    (
        "Initializing an LLM engine (v0.5.4) with config: model='m', max_seq_len=4096, "
        "tensor_parallel_size=2",
        K.STARTING,
        {"max_model_len": 4096, "tensor_parallel_size": 2},
    ),
    ("[model.py:1] Using max model len 131072", K.STARTING, {"max_model_len": 131072}),
    (
        "ValueError: Free memory on device cuda:1 (5.00/23.00 GiB) on startup is less than desired "
        "GPU memory utilization (0.9, 20.70 GiB).",
        K.FREE_MEMORY_TOO_LITTLE,
        {"free_bytes": 5 * GIB, "total_bytes": 23 * GIB, "wanted_bytes": 20.7 * GIB, "share": 0.9},
    ),
    ("Initial free memory: 77.50 GiB; requested", K.DEVICE_MEMORY_FREE, {"free_bytes": 77.5 * GIB}),
    ("Initializing an LLM engine with config: model='m'", K.STARTING, {}),
    (
        "Time spent downloading weights for m: 471.5 seconds",
        K.DOWNLOADED,
        {"seconds": 471.5},
    ),
    ("Dynamo bytecode transform time: 6.41 s", K.COMPILED_PART, {"seconds": 6.41}),
    (
        "Compiling a graph for compile range (1, 8192) takes 22.50 s",
        K.COMPILED_PART,
        {"seconds": 22.5},
    ),
    (
        "Directly load the compiled graph(s) for shape None from the cache, took 4.673 s",
        K.COMPILED_PART,
        {"seconds": 4.673},
    ),
    ("DeepGEMM warmup:  50%|#####     | 8/16 [04:31<04:31]", K.WARMUP_STARTED, {"done": 8}),
    ("It took 2.5 seconds to fall asleep.", K.SLEPT, {"seconds": 2.5}),
    ("It took 1.5 seconds to wake up.", K.WOKE, {"seconds": 1.5}),
    ("Starting to load model /models/m...", K.WEIGHTS_LOADING, {}),
    (
        "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01]",
        K.WEIGHTS_LOADING,
        {"done": 2, "total": 4},
    ),
    ("Loading model weights took 7.9692 GB", K.WEIGHTS_LOADED, {"bytes": 7.9692 * GIB}),
    (
        "Model loading took 15.70 GiB memory and 14.290000 seconds",
        K.WEIGHTS_LOADED,
        {"bytes": 15.7 * GIB, "seconds": 14.29},
    ),
    ("Loading weights took 3.65 seconds", K.WEIGHTS_LOADED, {"seconds": 3.65}),
    ("torch.compile takes 6.41 s in total", K.COMPILED, {"seconds": 6.41}),
    ("Starting profile run for multi-modal models.", K.PROFILING, {}),
    ("Encoder cache will be initialized with a budget, and profiled with 3 items", K.PROFILING, {}),
    ("Initial profiling/warmup run took 5.30 s", K.PROFILING, {"seconds": 5.3}),
    ("Memory profiling takes 1.46 seconds", K.PROFILING, {"seconds": 1.46}),
    ("worker.py:243] Memory profiling results:", K.PROFILING, {}),
    ("Profiling CUDA graph memory: PIECEWISE=16", K.PROFILING, {}),
    (
        "model weights take 14.96GiB; non_torch_memory takes 0.09GiB; PyTorch activation "
        "peak memory "
        "takes 1.26GiB; the rest of the memory reserved for KV Cache is 53.29GiB.",
        K.MEMORY_SPLIT,
        {"weights_bytes": 14.96 * GIB, "activation_bytes": 1.26 * GIB, "kv_bytes": 53.29 * GIB},
    ),
    (
        "worker.py:243] model weights take   14.96GiB",
        K.MEMORY_SPLIT,
        {"weights_bytes": 14.96 * GIB},
    ),
    (
        "worker.py:243] PyTorch activation peak memory       1.26GiB",
        K.MEMORY_SPLIT,
        {"activation_bytes": 1.26 * GIB},
    ),
    (
        "can use total_gpu_memory (23.55GiB) x gpu_memory_utilization (0.90) = 21.19GiB",
        K.MEMORY_SPLIT,
        {"total_bytes": 23.55 * GIB, "share": 0.9, "allowed_bytes": 21.19 * GIB},
    ),
    ("worker.py] total_gpu_memory     79.22GiB", K.MEMORY_SPLIT, {"total_bytes": 79.22 * GIB}),
    (
        "Free memory on device (74.1/79.2 GiB) on startup. Desired GPU memory utilization is (0.9, "
        "71.3 GiB). Actual usage is 14.9 GiB for weight, 1.2 GiB for peak activation, 0.1 GiB for "
        "non-torch memory, and 0.6 GiB for CUDAGraph memory.",
        K.MEMORY_SPLIT,
        {"free_bytes": 74.1 * GIB, "weights_bytes": 14.9 * GIB, "graph_bytes": 0.6 * GIB},
    ),
    ("Estimated CUDA graph memory: 0.36 GiB total", K.MEMORY_SPLIT, {"graph_bytes": 0.36 * GIB}),
    ("Available KV cache memory: -1.50 GiB", K.KV_CACHE_SIZED, {"bytes": -1.5 * GIB}),
    ("available_kv_cache_memory    53.29GiB", K.KV_CACHE_SIZED, {"bytes": 53.29 * GIB}),
    ("GPU KV cache size: 178,880 tokens", K.KV_CACHE_SIZED, {"tokens": 178_880}),
    (
        "CPU KV cache size: 2,048 tokens, Maximum concurrency for 512 tokens per request: 4.00x",
        K.KV_CACHE_SIZED,
        {"tokens": 2048, "max_model_len": 512, "concurrency": 4},
    ),
    (
        "Maximum concurrency for 32,768 tokens per request: 4.84x",
        K.KV_CACHE_SIZED,
        {"max_model_len": 32_768, "concurrency": 4.84},
    ),
    (
        "# CUDA blocks: 6001, # CPU blocks: 1638",
        K.KV_CACHE_SIZED,
        {"blocks": 6001, "cpu_blocks": 1638},
    ),
    (
        "cache_config_info with initialization after num_gpu_blocks is: 711",
        K.KV_CACHE_SIZED,
        {"blocks": 711},
    ),
    (
        "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens "
        "that can be stored in KV cache (99056). Try increasing",
        K.KV_CACHE_TOO_SMALL,
        {"max_model_len": 131_072, "tokens": 99_056},
    ),
    (
        "To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache "
        "is needed, which is larger than the available KV cache memory (5.60 GiB). Based on the "
        "available memory, the estimated maximum model length is 45872.",
        K.KV_CACHE_TOO_SMALL,
        {"needed_bytes": 16 * GIB, "available_bytes": 5.6 * GIB, "tokens": 45_872},
    ),
    ("ValueError: No available memory for the cache blocks. Try", K.KV_CACHE_TOO_SMALL, {}),
    (
        "Capturing CUDA graphs (decode, FULL):  43%|####3     | 3/7 [00:01<00:02]",
        K.GRAPH_CAPTURE_STARTED,
        {"done": 3, "total": 7},
    ),
    ("Capturing the model for CUDA graphs. This may", K.GRAPH_CAPTURE_STARTED, {}),
    (
        "Graph capturing finished in 22 secs, took 0.64 GiB",
        K.GRAPH_CAPTURE_FINISHED,
        {"seconds": 22, "bytes": 0.64 * GIB},
    ),
    (
        "init engine (profile, create kv cache, warmup model) took 40.08 seconds",
        K.INITIALIZED,
        {"seconds": 40.08},
    ),
    ("EngineCore failed to start.", K.FAILED_TO_START, {}),
    ("RuntimeError: Engine core initialization failed. See root cause", K.FAILED_TO_START, {}),
    ("WorkerProc failed to start.", K.FAILED_TO_START, {}),
    (
        "Sequence group 7 is preempted by PreemptionMode.RECOMPUTE mode because there is "
        "not enough "
        "KV cache space. total_num_cumulative_preemption=51",
        K.PREEMPTED,
        {"cumulative": 51},
    ),
    ("No available block found in 60 second.", K.NO_PROGRESS, {"seconds": 60}),
    ("TimeoutError: RPC call to execute_model timed out.", K.NO_PROGRESS, {}),
    ("Engine iteration timed out. This should never happen!", K.NO_PROGRESS, {}),
    (
        "Input prompt (5001 tokens) is too long and exceeds limit of 4096",
        K.PROMPT_TOO_LONG,
        {"tokens": 5001, "limit": 4096},
    ),
    (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        K.PROMPT_TOO_LONG,
        {"tokens": 5000, "limit": 4096},
    ),
    ("Request chatcmpl-1a aborted.", K.CLIENT_GONE, {}),
    ("Aborted request cmpl-77-0.", K.CLIENT_GONE, {}),
    ("Added request chatcmpl-1a.", K.REQUEST_BEGAN, {}),
    ("Finished request chatcmpl-1a.", K.REQUEST_ENDED, {}),
    ("Successfully reset prefix cache", K.CACHE_RESET, {}),
    (
        "Sleep mode freed 13.35 GiB memory, 2.29 GiB memory is still in use.",
        K.SLEPT,
        {"freed_bytes": 13.35 * GIB, "used_bytes": 2.29 * GIB},
    ),
    (
        "KV Transfer metrics: Num successful transfers=16, Avg xfer time (ms)=1920.4, "
        "P90 xfer time "
        "(ms)=2204.0, Avg post time (ms)=1092.7, Avg MB per transfer=64, Throughput (MB/s)=33.3, "
        "Avg number of descriptors=7168.0",
        K.TRANSFER,
        {
            "num": 16,
            "seconds": 1.9204,
            "p90_seconds": 2.204,
            "bytes": 64 * MIB,
            "descriptors": 7168,
        },
    ),
    ("RuntimeError: Aborted due to the lack of CPU swap space.", K.OUT_OF_MEMORY, {}),
    (
        "Too large swap space. 8.00 GiB out of the 6.00 GiB",
        K.HOST_OUT_OF_MEMORY,
        {"bytes": 6 * GIB},
    ),
    ("EngineCore encountered a fatal error.", K.DIED, {}),
    ("WorkerProc hit an exception.", K.DIED, {}),
    ("Worker VllmWorkerProcess pid 1159 died, exit code: -6", K.DIED, {"exit_code": -6}),
    ("Worker proc VllmWorker-3 died unexpectedly, shutting down executor.", K.DIED, {}),
    ("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", K.DIED, {}),
    ("vllm.engine.async_llm_engine.AsyncEngineDeadError: Task finished", K.DIED, {}),
    ("AsyncLLM output_handler failed.", K.DIED, {}),
    ("Background loop has errored already.", K.DIED, {}),
    (
        "Waiting: 3 reqs, Preemptions: 4, GPU KV cache usage: 99.0%",
        K.PREEMPTED,
        {"num": 4},
    ),
    (
        "The decoder prompt (length 5001) is longer than the maximum model length of 4096.",
        K.PROMPT_TOO_LONG,
        {"tokens": 5001, "limit": 4096},
    ),
]

SGLANG = [
    ("server_args=ServerArgs(model_path='m')", K.STARTING, {}),
    ("Load weight begin. avail mem=94.20 GB", K.WEIGHTS_LOADING, {"free_bytes": 94.2 * GIB}),
    (
        "Load weight end. elapsed=9.31 s, type=LlamaForCausalLM, dtype=torch.bfloat16, avail "
        "mem=46.92 GB, mem usage=47.31 GB.",
        K.WEIGHTS_LOADED,
        {"free_bytes": 46.92 * GIB, "bytes": 47.31 * GIB, "seconds": 9.31},
    ),
    (
        "KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB",
        K.KV_CACHE_SIZED,
        {"tokens": 367_404, "k_bytes": 8.23 * GIB},
    ),
    ("Memory pool end. avail mem=8.11 GB", K.KV_CACHE_SIZED, {"free_bytes": 8.11 * GIB}),
    (
        "max_total_num_tokens=400512, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=2048, context_len=131072, available_gpu_mem=11.40 GB",
        K.KV_CACHE_SIZED,
        {"tokens": 400_512, "max_running_requests": 2048, "max_model_len": 131_072},
    ),
    (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        K.KV_CACHE_TOO_SMALL,
        {},
    ),
    (
        "max_total_tokens=131072 is larger than the profiled value -561981. Use the profiled value",
        K.KV_CACHE_TOO_SMALL,
        {"tokens": -561_981},
    ),
    (
        "Capture cuda graph begin. This can take up to several minutes. avail mem=7.93 GB",
        K.GRAPH_CAPTURE_STARTED,
        {"free_bytes": 7.93 * GIB},
    ),
    (
        "Capturing batches (bs=160 avail_mem=7.81 GB):   4%|4    | 1/23 [00:01<00:24]",
        K.GRAPH_CAPTURE_STARTED,
        {"done": 1, "total": 23, "free_bytes": 7.81 * GIB},
    ),
    (
        "Capture cuda graph end. Time elapsed: 9.82 s. mem usage=1.20 GB. avail mem=6.70 GB.",
        K.GRAPH_CAPTURE_FINISHED,
        {"seconds": 9.82, "bytes": 1.2 * GIB},
    ),
    ("Capture cuda graph num tokens [4, 8, 12]", K.GRAPH_CAPTURE_STARTED, {}),
    ("The server is fired up and ready to roll!", K.READY, {}),
    (
        "KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 900",
        K.RETRACTED,
        {"num": 2, "tokens": 900},
    ),
    (
        "Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.69 -> 0.80",
        K.RETRACTED,
        {"num": 1, "ratio_after": 0.8},
    ),
    ("Watchdog timeout (self.watchdog_timeout=300)", K.NO_PROGRESS, {"seconds": 300}),
    (
        "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds.",
        K.NO_PROGRESS,
        {"seconds": 20},
    ),
    (
        "Received output for rid='a1' but the state was deleted in TokenizerManager.",
        K.OUTPUT_WITHOUT_OWNER,
        {},
    ),
    (
        "ValueError: pool memory leak detected! [full] total=900, available=7, evictable=80, "
        "protected=0",
        K.MEMORY_LEAK,
        {"total": 900, "available": 7, "evictable": 80},
    ),
    (
        "UserWarning: Warning: available_size=35244, max_total_num_token=42308",
        K.MEMORY_LEAK,
        {"total": 42308, "available": 35244},
    ),
    ("KV cache pool leak detected!", K.MEMORY_LEAK, {}),
    (
        "UserWarning: KV cache pool leak detected!available_size=120, protected_size=0, "
        "self.max_total_num_tokens=131",
        K.MEMORY_LEAK,
        {"total": 131, "available": 120},
    ),
    (
        "ValueError: token_to_kv_pool_allocator memory leak detected! "
        "self.max_total_num_tokens=270331, available_size=644, evictable_size=269628, "
        "protected_size=0",
        K.MEMORY_LEAK,
        {"total": 270331, "available": 644, "evictable": 269628},
    ),
    (
        "Rank 0: max_total_num_token=42308, max_prefill_num_token=7051, context_len=4096,",
        K.KV_CACHE_SIZED,
        {"tokens": 42308, "max_model_len": 4096},
    ),
    ("Cache flushed successfully!", K.CACHE_RESET, {}),
    ("Entering DeepGEMM JIT Pre-Compile session. It may take long", K.WARMUP_STARTED, {}),
    (
        "Failed to allocate KV cache for a prebuilt request, available tokens 4106",
        K.NO_ROOM,
        {"tokens": 4106},
    ),
    ("The request queue is full.", K.REJECTED, {}),
    (
        "Decode transfer failed for request rank=6 decode_req.req.rid='cd' with exception "
        "KVTransferError(bootstrap_room=8): Request 8 timed out after 600.0s in KVPoll",
        K.TRANSFER_FAILED,
        {"seconds": 600},
    ),
    ("RuntimeError: Prefill out of memory. Try to lower your batch size.", K.OUT_OF_MEMORY, {}),
    ("Scheduler hit an exception: Traceback (most recent call last):", K.DIED, {}),
    ("Scheduler or DataParallelController 77 terminated with -9", K.DIED, {"exit_code": -9}),
    ("Rank 0 scheduler is dead. Please check", K.DIED, {}),
    ("RuntimeError: Decode out of memory. Try to lower your batch size.", K.OUT_OF_MEMORY, {}),
    (
        "Multi-thread loading shards:  50% Completed | 4/8 [00:02<00:02]",
        K.WEIGHTS_LOADING,
        {"done": 4, "total": 8},
    ),
    ("Request is disconnected from the client side (type 1). Abort rid='a'", K.CLIENT_GONE, {}),
    ("KVTransferError(bootstrap_room=4): Aborted by AbortReq.", K.TRANSFER_FAILED, {}),
    (
        "ValueError: Input length (9000 tokens) exceeds the maximum allowed length (8192 tokens).",
        K.PROMPT_TOO_LONG,
        {"tokens": 9000, "limit": 8192},
    ),
]

LLAMACPP = [
    (
        "using device CUDA0 (NVIDIA L4) - 22000 MiB free",
        K.DEVICE_MEMORY_FREE,
        {"free_bytes": 22000 * MIB},
    ),
    ("load_tensors: loading model tensors, this can take a while...", K.WEIGHTS_LOADING, {}),
    (
        "load_tensors:        CUDA0 model buffer size =  4807.05 MiB",
        K.WEIGHTS_LOADED,
        {"bytes": 4807.05 * MIB},
    ),
    ("llama_kv_cache_init:      CUDA0 KV buffer size =   379.23 MiB", K.KV_CACHE_SIZED, {}),
    (
        "llama_kv_cache: size = 1024.00 MiB (  8192 cells,  32 layers,  4/1 seqs), K "
        "(f16): 512 MiB",
        K.KV_CACHE_SIZED,
        {"bytes": 1024 * MIB, "tokens": 8192},
    ),
    ("llama_new_context_with_model: KV self size  = 1005.79 MiB, K", K.KV_CACHE_SIZED, {}),
    (
        "llama_context:      CUDA0 compute buffer size =   304.75 MiB",
        K.MEMORY_SPLIT,
        {"activation_bytes": 304.75 * MIB},
    ),
    ("common_init: warming up the model with an empty run", K.WARMUP_STARTED, {}),
    ("main: server is listening on http://127.0.0.1:8080 - starting", K.READY, {}),
    ("srv  llama_server: listening on http://127.0.0.1:8080", K.READY, {}),
    ("srv    load_model: loading model 'm.gguf'", K.WEIGHTS_LOADING, {}),
    (
        "slot get_availabl: id  0 | task -1 | selected slot by lcs similarity, max_lcs_len = 9, "
        "similarity = 0.500 (> 0.100 thold)",
        K.SLOT_CHOSEN,
        {"similarity": 0.5},
    ),
    ("slot get_availabl: id  3 | task -1 | selected slot by LRU, t_last = 5", K.SLOT_CHOSEN, {}),
    ("slot launch_slot_: id  0 | task 7 | processing task", K.REQUEST_BEGAN, {}),
    (
        "slot      release: id  0 | task 7 | stop processing: n_past = 120, truncated = 1",
        K.REQUEST_ENDED,
        {"tokens": 120, "truncated": 1},
    ),
    ("srv  update_slots: all slots are idle", K.IDLE, {}),
    ("srv          stop: cancel task, id_task = 7", K.CLIENT_GONE, {}),
    (
        "slot update_slots: id  0 | task 7 | new prompt, n_ctx_slot = 2048, n_keep = 0, "
        "n_prompt_tokens = 895",
        K.PROMPT_STARTED,
        {"context": 2048, "tokens": 895},
    ),
    (
        "slot print_timing: id  0 | task 7 | prompt eval time =    2000.00 ms /   500 tokens "
        "(    4.00 ms per token,   250.00 tokens per second)",
        K.PROMPT_EVALUATED,
        {"seconds": 2, "tokens": 500, "per_second": 250},
    ),
    (
        "INFO [ print_timings] generation eval time =     800.00 ms /    20 runs   (   "
        "40.00 ms per "
        'token,    25.00 tokens per second) | tid="0x1" timestamp=1720645909',
        K.GENERATED,
        {"seconds": 0.8, "tokens": 20},
    ),
    (
        "slot print_timing: id  0 | task 7 | prompt processing, n_tokens =  512, progress = 0.25, "
        "t =  2.00 s / 256.00 tokens per second",
        K.PROMPT_PROGRESS,
        {"tokens": 512, "progress": 0.25, "seconds": 2},
    ),
    ("task 7 | forcing full prompt re-processing due to lack of cache data", K.FULL_REPROCESS, {}),
    ("slot update_slots: id  0 | task 7 | kv cache rm [0, end)", K.CACHE_RESET, {}),
    ("slot update_slots: id  0 | task 7 | kv cache rm [512, end)", K.CACHE_CUT, {"from": 512}),
    (
        'INFO [ update_slots] kv cache rm [p0, end) | tid="0x1" timestamp=1720645907 id_slot=0 '
        "id_task=1 p0=24",
        K.CACHE_CUT,
        {"from": 24},
    ),
    ("task 7 | n_tokens = 24, memory_seq_rm [24, end)", K.CACHE_CUT, {"from": 24}),
    (
        "srv   prompt_save:  - saving prompt with length 99, total state size = 10.830 MiB",
        K.HOST_STATE_SAVED,
        {"tokens": 99, "bytes": 10.83 * MIB},
    ),
    (
        "created context checkpoint 3 of 8 (pos_min = 7, pos_max = 9, size = 63.290 MiB)",
        K.HOST_STATE_SAVED,
        {"checkpoint": 3, "checkpoints": 8, "bytes": 63.29 * MIB},
    ),
    (
        "srv        update:  - cache state: 4 prompts, 80.000 MiB (limits: 8192.000 MiB, 9 tokens)",
        K.HOST_STATE_SAVED,
        {"prompts": 4, "bytes": 80 * MIB, "limit_bytes": 8192 * MIB},
    ),
    (
        "erased invalidated context checkpoint (pos_min = 7, pos_max = 7, size = 75.376 MiB)",
        K.CACHE_EVICTED,
        {"bytes": 75.376 * MIB},
    ),
    (
        "cache size limit reached, removing oldest entry (size = 8417.502 MiB)",
        K.CACHE_EVICTED,
        {"bytes": 8417.502 * MIB},
    ),
    (
        "slot context shift, n_keep = 0, n_left = 2047, n_discard = 1023",
        K.CONTEXT_SHIFTED,
        {"discarded": 1023},
    ),
    (
        "failed to find free space in the KV cache, retrying with smaller n_batch = 256",
        K.NO_ROOM,
        {},
    ),
    ("decode: failed to find a memory slot for batch of size 512", K.NO_ROOM, {"tokens": 512}),
    ("the request exceeds the available context size, try increasing it", K.PROMPT_TOO_LONG, {}),
    (
        "allocating 8900.01 MiB on device 0: cudaMalloc failed: out of memory",
        K.OUT_OF_MEMORY,
        {"wanted_bytes": 8900.01 * MIB, "device": 0},
    ),
    (
        "ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 9332334592",
        K.OUT_OF_MEMORY,
        {"wanted_bytes": 9_332_334_592},
    ),
    ("graph_reserve: failed to allocate compute buffers", K.OUT_OF_MEMORY, {}),
    ("llama_model_load: failed to load model", K.FAILED_TO_START, {}),
    ("main: exiting due to model loading error", K.FAILED_TO_START, {}),
    ("llama_init: error: failed to create context with model", K.FAILED_TO_START, {}),
    ("build_info: b7200-abc", K.STARTING, {}),
    ("build: 4520 (abc) with gcc", K.STARTING, {}),
    ("main: model loaded", K.READY, {}),
    (
        'INFO [ launch_slot_with_task] slot is processing task | tid="0x1" id_slot=0 id_task=1',
        K.REQUEST_BEGAN,
        {},
    ),
    (
        "draft acceptance rate = 0.34320 (  313 accepted /   912 generated)",
        K.GENERATED,
        {"accepted": 313, "drafted": 912},
    ),
    ("slot update_slots: id  0 | task 9 | memory_seq_rm [0, end)", K.CACHE_RESET, {}),
    ("input is too large to process. increase the physical batch size", K.PROMPT_TOO_LONG, {}),
    ("srv send_error: task id = 9, error: Context size has been exceeded.", K.OUT_OF_MEMORY, {}),
    ("unexpected error in llama server update_slots - exiting main loop", K.DIED, {}),
    ("ggml.c:9: GGML_ASSERT(x) failed", K.DIED, {}),
]

MEMORY = [
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 23.65 GiB of which 1.50 GiB is free. Including non-PyTorch memory, "
        "this process "
        "has 22.00 GiB memory in use. Of the allocated memory 20.00 GiB is allocated by PyTorch, "
        "with 64.00 MiB allocated in private pools (e.g., CUDA Graphs), and 512.00 MiB is reserved "
        "by PyTorch but unallocated.",
        K.OUT_OF_MEMORY,
        {
            "wanted_bytes": 2 * GIB,
            "total_bytes": 23.65 * GIB,
            "free_bytes": 1.5 * GIB,
            "process_bytes": 22 * GIB,
            "allocated_bytes": 20 * GIB,
            "pool_bytes": 64 * MIB,
            "reserved_bytes": 512 * MIB,
        },
    ),
    (
        "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 1.00 GiB (GPU 3; 64.00 "
        "GiB total capacity; 60.00 GiB already allocated; 0.50 GiB free; 62.00 GiB "
        "reserved in total "
        "by PyTorch)",
        K.OUT_OF_MEMORY,
        {"wanted_bytes": GIB, "device": 3, "allocated_bytes": 60 * GIB, "free_bytes": 0.5 * GIB},
    ),
    (
        "[rank5]:[W302 22:05:13 CUDACachingAllocator.cpp:3933] memory allocation failed "
        "with OOM on "
        "device 5 while trying to allocate 671088640 bytes (free: 513736704, total: 85095874560).",
        K.OUT_OF_MEMORY,
        {"wanted_bytes": 671_088_640, "free_bytes": 513_736_704, "device": 5},
    ),
    ("RuntimeError: CUDA error: out of memory", K.OUT_OF_MEMORY, {}),
    ("torch.OutOfMemoryError", K.OUT_OF_MEMORY, {}),
    ("CUDA runtime error (2): out of memory", K.OUT_OF_MEMORY, {}),
    ("cudaErrorMemoryAllocation: no more", K.OUT_OF_MEMORY, {}),
    ("hipErrorOutOfMemory", K.OUT_OF_MEMORY, {}),
    ("vk::Device::allocateMemory: ErrorOutOfDeviceMemory", K.OUT_OF_MEMORY, {}),
    ("NCCL WARN Cuda failure 2 'out of memory'", K.OUT_OF_MEMORY, {}),
    ("RuntimeError: CUDNN_STATUS_ALLOC_FAILED", K.OUT_OF_MEMORY, {}),
    (
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 "
        "dummy requests.",
        K.OUT_OF_MEMORY,
        {"seats": 1024},
    ),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling", K.OUT_OF_MEMORY, {}),
    (
        "Not enough memory to handle 4096 prefill tokens. You need",
        K.OUT_OF_MEMORY,
        {"tokens": 4096},
    ),
]

HOST = [
    (
        "[ 518.050606] Out of memory: Killed process 157 (python3) total-vm:2097152kB, "
        "anon-rss:1048576kB, file-rss:0kB",
        K.HOST_OUT_OF_MEMORY,
        {"pid": 157, "virtual_bytes": 2 * GIB, "bytes": GIB},
    ),
    (
        "kernel: Memory cgroup out of memory: Killed process 9 (VLLM::EngineCor) total-vm:1kB, "
        "anon-rss:4kB",
        K.HOST_OUT_OF_MEMORY,
        {"pid": 9, "bytes": 4096},
    ),
    (
        "kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),"
        "task=pt_main_thread,pid=461,uid=0",
        K.HOST_OUT_OF_MEMORY,
        {"pid": 461},
    ),
    ("kernel: python3 invoked oom-killer: gfp_mask=0xcc0", K.HOST_OUT_OF_MEMORY, {}),
    (
        "systemd[1]: A process of this unit has been killed by the OOM killer.",
        K.HOST_OUT_OF_MEMORY,
        {},
    ),
    ("    Reason:       OOMKilled", K.HOST_OUT_OF_MEMORY, {}),
    (
        "RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to "
        "allocate 1048576 bytes.",
        K.HOST_OUT_OF_MEMORY,
        {"wanted_bytes": MIB},
    ),
    ("systemd[1]: x.service: Consumed 2min CPU time, 11.4G memory peak.", K.HOST_MEMORY_PEAK, {}),
    (
        "kernel: memory: usage 1048576kB, limit 2097152kB, failcnt 141",
        K.HOST_MEMORY_PEAK,
        {"bytes": GIB, "limit_bytes": 2 * GIB},
    ),
    (
        "Memory on the node (IP: 10.0.0.7, ID: 5f) where the task was running was 120.00GB / "
        "128.00GB (0.95), which exceeds the memory usage threshold of 0.95.",
        K.HOST_MEMORY_PEAK,
        {"bytes": 120 * GIB, "limit_bytes": 128 * GIB},
    ),
    ("systemd[1]: Main process exited, code=killed, status=9/KILL", K.DIED, {"exit_code": 9}),
    ("    Exit Code:    137", K.DIED, {"exit_code": 137}),
    ("process 77 exited with code 139", K.DIED, {"exit_code": 139}),
    ("rank 3 failed (exitcode: -9) local_rank: 3", K.DIED, {"exit_code": -9}),
    ("A worker died or was killed by SIGKILL", K.DIED, {}),
    ("Segmentation fault (core dumped)", K.DIED, {}),
    ("systemd[1]: x.service: Failed with result 'oom-kill'.", K.HOST_OUT_OF_MEMORY, {}),
    ("Warning  OOMKilling  kernel-monitor", K.HOST_OUT_OF_MEMORY, {}),
    ("terminate called after throwing an instance of 'std::bad_alloc'", K.HOST_OUT_OF_MEMORY, {}),
    ("MemoryError", K.HOST_OUT_OF_MEMORY, {}),
    ("OSError: [Errno 12] Cannot allocate memory", K.HOST_OUT_OF_MEMORY, {}),
    ("failed to allocate 512.00 MiB of pinned memory", K.HOST_OUT_OF_MEMORY, {}),
    ("It is possible that there is insufficient shared memory (shm).", K.HOST_OUT_OF_MEMORY, {}),
    ("Task was killed due to the node running low on memory.", K.HOST_OUT_OF_MEMORY, {}),
    ("GPU has fallen off the bus.", K.DEVICE_ERROR, {}),
    (
        "| N/A   24C    P0      99W /  700W |   2048MiB /  81559MiB |     97%      Default |",
        K.DEVICE_MEMORY,
        {"used_bytes": 2 * GIB, "busy_percent": 97},
    ),
    (
        "|    0   N/A  N/A      4567      C   VLLM::EngineCore                    1024MiB |",
        K.DEVICE_PROCESS,
        {"used_bytes": GIB, "pid": 4567, "device": 0},
    ),
    ("CUDA error: uncorrectable ECC error encountered", K.DEVICE_ERROR, {}),
    ("CUDA error: unspecified launch failure", K.DEVICE_ERROR, {}),
    ("NCCL communicator init timed out after 1800000 ms", K.COLLECTIVE_SLOW, {"seconds": 1800}),
    ("[node-b:7:2] ucp_worker.c:1 UCX  INFO ctx am(tcp/eth1 cuda_ipc)", K.NETWORK_CHOSEN, {}),
    (
        "NVRM: Xid (PCI:0000:18:00): 79, pid=7, GPU has fallen off the bus.",
        K.DEVICE_ERROR,
        {"xid": 79},
    ),
    ("CUDA error: an illegal memory access was encountered", K.DEVICE_ERROR, {}),
    ("node-a:5:5 [0] NCCL INFO Using network Socket", K.NETWORK_CHOSEN, {}),
    (
        "[rank0]:[E321 02:07:08.408 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, Timeout(ms)=600000) ran "
        "for 600060 "
        "milliseconds before timing out.",
        K.COLLECTIVE_SLOW,
        {"seconds": 600.06},
    ),
]

AROUND = [
    (
        '10.0.0.9:51202 - "POST /v1/chat/completions HTTP/1.1" 503 Service',
        K.HTTP_ANSWERED,
        {"status": 503},
    ),
    (
        "srv  log_server_r: request: POST /v1/completions 127.0.0.1 200",
        K.HTTP_ANSWERED,
        {"status": 200},
    ),
    (
        "log_server_response: rid  | GET /v1/models 127.0.0.1:53904 | status 503 | cost 29s",
        K.HTTP_ANSWERED,
        {"status": 503},
    ),
    ("INFO:     Application startup complete.", K.READY, {}),
    ("INFO:     Uvicorn running on http://0.0.0.0:8000", K.READY, {}),
    ("ray.serve.exceptions.BackPressureError: Request dropped due to backpressure", K.REJECTED, {}),
    (
        "ERROR generate:infer: text_generation_router::infer: router/src/infer.rs:1: no permits "
        "available",
        K.REJECTED,
        {},
    ),
    (
        "INFO text_generation_launcher: Shard 0 ready in 171.4s",
        K.WEIGHTS_LOADED,
        {"seconds": 171.4},
    ),
    ("INFO text_generation_router: src/main.rs:2: Warming up model", K.WARMUP_STARTED, {}),
    ("Setting max batch total tokens to 16000", K.KV_CACHE_SIZED, {"tokens": 16_000}),
    ("INFO text_generation_router::server: router/src/server.rs:2: Connected", K.READY, {}),
    (
        "[MemUsageChange] Allocated 0.37 GiB for max tokens in paged KV cache (9216).",
        K.KV_CACHE_SIZED,
        {"bytes": 0.37 * GIB, "tokens": 9216},
    ),
    ("Scheduler could not fit any request this iteration ... KV cache pool full", K.NO_ROOM, {}),
    (
        "LMCache INFO: Retrieved 1024 out of 1024 required tokens. size: 0.1250 gb, cost 12.5 ms, "
        "throughput: 10.0 GB/s",
        K.TRANSFER,
        {"tokens": 1024, "bytes": GIB / 8, "seconds": 0.0125, "bytes_per_second": 10 * GIB},
    ),
    (
        "Upscaling Deployment(name='LLMServer', app='chat') from 0 to 1 replicas. Current ongoing "
        "requests: 6.00",
        K.SCALED,
        {"from": 0, "to": 1, "ongoing": 6},
    ),
    (
        "Deployment 'LLMServer' in application 'chat' has 2 replicas that have taken more than 30s "
        "to be scheduled.",
        K.REPLICA_LATE,
        {"num": 2, "seconds": 30},
    ),
    ("Scaled up replica set vllm-6f from 1 to 3", K.SCALED, {"from": 1, "to": 3}),
    (
        "[I] Server: http://b:8336, delay: 0.00042 second, offset: -2.5 second",
        K.CLOCK_OFFSET,
        {"offset": -2.5, "delay_seconds": 0.00042},
    ),
    (
        "KvCacheAwareRouter: server b picked, matched_tokens=[0, 64], padded_tokens=900, "
        "workloads=[6, 7]",
        K.ROUTED,
        {"tokens": 900},
    ),
    (
        "LMCache INFO: Reqid: cmpl-7-0, Total tokens 142, LMCache hit tokens: 64, need to load: 0",
        K.CACHE_ASKED,
        {"tokens": 142, "hits": 64},
    ),
    ("router: decision cache_hits=[0, 0] load=[38, 0] picked=worker-a", K.ROUTED, {}),
    (
        "Selected worker: worker_id=7042 dp_rank=1, logit: 14.031, cached blocks: 3, tree size: 0",
        K.ROUTED,
        {"dp_rank": 1, "cached_blocks": 3},
    ),
    ("nixl.write_blocks: Time to init xfer: 1800.25 ms", K.TRANSFER, {"seconds": 1.80025}),
    ("nixl.write_blocks: Total time for write: 1803.5 ms", K.TRANSFER, {"seconds": 1.8035}),
    ("Warning  FailedScheduling  default-scheduler  0/3 nodes", K.REPLICA_LATE, {}),
    ("Readiness probe failed: HTTP probe failed with statuscode: 503", K.WARNING, {}),
    ("Liveness probe failed: timeout", K.WARNING, {}),
    ("INFO text_generation_launcher: Args { model_id: x", K.STARTING, {}),
    ("Model is overloaded", K.REJECTED, {}),
    (
        "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4090 `inputs` tokens",
        K.PROMPT_TOO_LONG,
        {"limit": 4096, "tokens": 4090},
    ),
    ("INFO text_generation_launcher: Starting shard rank=0", K.WEIGHTS_LOADING, {}),
    ("KV-cache blocks: 9000, size: 1", K.KV_CACHE_SIZED, {"blocks": 9000, "block_size": 1}),
    ("Cuda Graphs are enabled for sizes [32, 16]", K.GRAPH_CAPTURE_STARTED, {}),
    ("ERROR text_generation_launcher: Webserver Crashed", K.FAILED_TO_START, {}),
    ("Shard process was signaled to shutdown with signal 9 rank=0", K.DIED, {"signal": 9}),
    ("[TensorRT-LLM] TensorRT-LLM version: 1.2.0", K.STARTING, {}),
    ("ERROR NIXL transfer failed for request 7", K.TRANSFER_FAILED, {}),
    ("Mooncake session transfer to 10.0.0.2 failed", K.TRANSFER_FAILED, {}),
    ("request: GET /health 127.0.0.1 503", K.HTTP_ANSWERED, {"status": 503}),
    (
        'request | tid="0x1" remote_addr="127.0.0.1" status=200 method="GET" path="/health"',
        K.HTTP_ANSWERED,
        {"status": 200},
    ),
    ("the queue is full", K.REJECTED, {}),
    ("Worker at capacity, rejecting request", K.REJECTED, {}),
    ("request 77 was rejected by the limit", K.REJECTED, {}),
    ("all workers are busy", K.REJECTED, {}),
    ("Too many requests", K.REJECTED, {}),
    ("[TRT-LLM] [I] Starting TensorRT-LLM init.", K.STARTING, {}),
    (
        "[TRT-LLM] [I] Total time of building Unnamed Network 0: 00:13:50",
        K.COMPILED,
        {"seconds": 830},
    ),
    (
        "[TRT-LLM] [I] Total time of reading and converting rank0 checkpoint: 00:00:28",
        K.WEIGHTS_LOADED,
        {"seconds": 28},
    ),
    (
        'Pulled Successfully pulled image "vllm/vllm-openai:v1" in 9m20.5s (9m20.5s including',
        K.IMAGE_PULLED,
        {"seconds": 560.5},
    ),
    (
        "INFO [custom_all_reduce_utils.py:246] reading GPU P2P access cache from /root/x.json",
        K.PEERS_CHECKED,
        {},
    ),
    (
        "Loading weights concurrently:  47%|####     | 667/1417 [00:03<00:05, 139.82it/s]",
        K.WEIGHTS_LOADING,
        {"done": 667, "total": 1417},
    ),
    (
        "Allocation on device 0 would exceed allowed memory. (out of memory) Currently allocated "
        ": 16.00 GiB Requested : 4.00 GiB Device limit : 22.00 GiB",
        K.OUT_OF_MEMORY,
        {"allocated_bytes": 16 * GIB, "wanted_bytes": 4 * GIB, "total_bytes": 22 * GIB},
    ),
    ("[TRT-LLM] [I] Prefetching 140.00GB checkpoint files.", K.WEIGHTS_LOADING, {}),
    (
        "[TRT-LLM] [I] Use 15.00 GB for model weights.",
        K.WEIGHTS_LOADED,
        {"bytes": 15 * GIB},
    ),
    ("[TensorRT-LLM][INFO] Loaded engine size: 100 MiB", K.WEIGHTS_LOADING, {}),
    ("[TensorRT-LLM][ERROR] (Engine deserialization failed.)", K.ERROR, {}),
    ("[TRT-LLM] [I] Estimating max memory in KV cache : 12.00 GiB", K.PROFILING, {}),
    (
        "[TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 30.00 GiB",
        K.MEMORY_SPLIT,
        {"activation_bytes": 30 * GIB},
    ),
    (
        "[TRT-LLM] [I] Creating CUDA graph instances for 34 batch sizes.",
        K.GRAPH_CAPTURE_STARTED,
        {"total": 34},
    ),
    (
        "[TRT-LLM] [I] Run generation only CUDA graph warmup for batch size=8",
        K.GRAPH_CAPTURE_STARTED,
        {},
    ),
    ("[TRT-LLM] [E] Hang detected on rank 3 in PyExecutor.", K.NO_PROGRESS, {"hung_rank": 3}),
    ("INFO [kernel_warmup.py:64] Running FlashInfer autotune", K.WARMUP_STARTED, {}),
    ("[TRT-LLM] [I] [Autotuner] Autotuning process starts ...", K.WARMUP_STARTED, {}),
    (
        "RuntimeError: MPS backend out of memory (MPS allocated: 17.00 GiB, other allocations: "
        "1.0 KiB, max allowed: 18.00 GiB). Tried to allocate 3.00 GiB on private pool.",
        K.OUT_OF_MEMORY,
        {"wanted_bytes": 3 * GIB, "total_bytes": 18 * GIB},
    ),
    (
        "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 2.50G. That "
        "was not possible. There are 1.25G free.",
        K.OUT_OF_MEMORY,
        {"wanted_bytes": 2.5 * GIB, "free_bytes": 1.25 * GIB},
    ),
    (
        "[TRT] Error Code 2: OutOfMemory (Requested size was 1048576 bytes.)",
        K.OUT_OF_MEMORY,
        {"wanted_bytes": MIB},
    ),
    (
        "MODULE:PT_DEVMEM Allocation failed for size::1048576 (1)MB",
        K.OUT_OF_MEMORY,
        {"wanted_bytes": MIB},
    ),
    ("error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", K.OUT_OF_MEMORY, {}),
    ("cuMemCreate failed: out of memory", K.OUT_OF_MEMORY, {}),
    (
        "sycl_buffer_type_alloc_buffer: can't allocate 1048576 Bytes of memory on device",
        K.OUT_OF_MEMORY,
        {"wanted_bytes": MIB},
    ),
    (
        "ggml_vulkan: Device memory allocation of size 1048576 failed.",
        K.OUT_OF_MEMORY,
        {"wanted_bytes": MIB},
    ),
]


def only_event(line: str) -> LogEvent:
    [event] = read_log(line).events
    return event


@pytest.mark.parametrize(
    ("line", "kind", "fields"), [*VLLM, *SGLANG, *LLAMACPP, *MEMORY, *HOST, *AROUND]
)
def test_a_line_says_what_it_says(line: str, kind: LogKind, fields: dict[str, float]) -> None:
    event = only_event(line)
    assert event.kind is kind
    assert {name: event.fields.get(name) for name in fields} == pytest.approx(fields)


def test_nearly_every_shape_is_shown_by_a_line() -> None:
    lines = [line for line, *_ in (*VLLM, *SGLANG, *LLAMACPP, *MEMORY, *HOST, *AROUND)]
    shown = {id(shape) for line in lines if (shape := SHAPES.shape_of(line)) is not None}
    assert len(shown) > 0.9 * len(SHAPES.shapes)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("(EngineCore_DP1 pid=7) ERROR [core.py:1] EngineCore failed to start.", {"rank": "dp1"}),
        ("(VllmWorker TP3 pid=7) EngineCore failed to start.", {"rank": "tp3"}),
        ("[2026-11-30 08:00:00 DP0 TP2] Cache flushed successfully!", {"rank": "dp0 tp2"}),
        (
            "slot x: id  1 | task 42 | forcing full prompt re-processing",
            {"slot": "1", "task": "42"},
        ),
        ("vllm-2  | INFO:     Application startup complete.", {"replica": "vllm-2"}),
        ("[pod/vllm-7f/vllm] INFO:     Application startup complete.", {"replica": "vllm-7f"}),
        ("Request chatcmpl-1a aborted.", {"request_id": "chatcmpl-1a"}),
        ("RuntimeError: Decode out of memory. Try to lower your batch size.", {"stage": "decode"}),
        ("NVRM: Xid (PCI:0000:18:00): 31, pid=7", {"device": "PCI:0000:18:00"}),
    ],
)
def test_who_wrote_a_line_and_of_what_is_kept(line: str, words: dict[str, str]) -> None:
    assert words.items() <= only_event(line).words.items()


@pytest.mark.parametrize(
    "line",
    [
        '{"log":"torch.OutOfMemoryError: CUDA out of memory.\\n","stream":"stderr",'
        '"time":"2026-11-30T08:00:00Z"}',
        '{"timestamp":"2026-11-30T08:00:00Z","level":"ERROR","fields":{"message":"CUDA out of '
        'memory"},"target":"text_generation_launcher"}',
        '{"event": "torch.OutOfMemoryError: CUDA out of memory.", "level": "error", "timestamp": '
        '"2026-11-30T08:00:00Z"}',
        '{"message": "step failed", "ts": 1796025600, "exc_info": "Traceback\\n  File x\\n'
        'torch.OutOfMemoryError: CUDA out of memory."}',
        "2026-11-30T08:00:00.000000000Z stderr F torch.OutOfMemoryError: CUDA out of memory.",
        "Nov 30 08:00:00 gpu1 vllm[77]: torch.OutOfMemoryError: CUDA out of memory.",
        "\x1b[36m(RayWorkerWrapper pid=5, ip=10.0.0.2)\x1b[0m ERROR 11-30 08:00:00 [x.py:1] "
        "torch.OutOfMemoryError: CUDA out of memory. \x1b[32m [repeated 6x across cluster]\x1b[0m",
        'time=2026-11-30T08:00:00Z level=ERROR source=x.go:1 msg="CUDA error: out of memory"',
    ],
)
def test_wrappers_are_taken_off(line: str) -> None:
    part = read_log(line)
    assert K.OUT_OF_MEMORY in [event.kind for event in part.events]
    assert part.start is not None
