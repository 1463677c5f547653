"""The stage in which memory ran out decides which rule speaks, and the others keep silent."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rules import MEMORY
from controlplane.diagnosis.rules.memory.decode import DECODE_GROWTH
from controlplane.diagnosis.rules.memory.prefill import PREFILL_TRANSIENT
from controlplane.diagnosis.rules.memory.profile import PROFILE
from controlplane.diagnosis.rules.queue.never_fits import NEVER_FITS
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.log import read_log
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.window import Window
from tests.controlplane.diagnosis.rules.build_window import Line, fact, said, window
from tests.controlplane.diagnosis.rules.evidence import reckoned

GIB = 1024.0**3
STARTING = said(LogKind.STARTING, "INFO Initializing a V1 LLM engine (v0.20.0)")
LOADING = said(LogKind.WEIGHTS_LOADING, "INFO Loading safetensors checkpoint shards: 0% | 0/4")
LOADED = said(LogKind.WEIGHTS_LOADED, "INFO Model loading took 14.99 GiB", bytes=14.99 * GIB)
SIZED = said(LogKind.KV_CACHE_SIZED, "INFO Available KV cache memory: 3.10 GiB", bytes=3.1 * GIB)
CAPTURING = said(LogKind.GRAPH_CAPTURE_STARTED, "Capturing CUDA graphs: 10%|1 | 1/10 [00:01]")
CAPTURED = said(
    LogKind.GRAPH_CAPTURE_FINISHED, "INFO Graph capturing finished in 9 secs, took 0.50 GiB"
)
READY = said(LogKind.READY, "INFO:     Application startup complete.")
OUT = said(
    LogKind.OUT_OF_MEMORY,
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total "
    "capacity of 22.00 GiB of which 100.00 MiB is free.",
    wanted_bytes=256 * 1024.0**2,
    total_bytes=22 * GIB,
    free_bytes=100 * 1024.0**2,
)
BARE = said(LogKind.OUT_OF_MEMORY, "torch.OutOfMemoryError: CUDA out of memory.")


def _likely(found: Window) -> dict[Mechanism, Verdict]:
    verdicts = {rule.mechanism: rule.judge(found) for rule in MEMORY}
    return {
        mechanism: verdict
        for mechanism, verdict in verdicts.items()
        if verdict is not None and verdict.confidence >= Confidence.LIKELY
    }


CASES: dict[str, tuple[Mechanism, tuple[Line | str, ...]]] = {
    "while checkpoint shards are read": (Mechanism.OOM_LOAD, (STARTING, LOADING, OUT)),
    "in the loader's own function": (
        Mechanism.OOM_LOAD,
        (STARTING, '  File "/opt/vllm/gpu_worker.py", line 1, in load_model', OUT),
    ),
    "a buffer of weights, llama.cpp": (
        Mechanism.OOM_LOAD,
        (BARE, "llama_model_load: error loading model: unable to allocate CUDA0 buffer"),
    ),
    "repacking weights that are quantized": (
        Mechanism.OOM_LOAD,
        (STARTING, '  File "/x/marlin.py", line 8, in process_weights_after_loading', OUT),
    ),
    "in the profiling run": (
        Mechanism.OOM_PROFILE,
        (STARTING, LOADED, '  File "/opt/vllm/gpu_worker.py", line 2, in profile_run', OUT),
    ),
    "in a profile that runs the sampler": (
        Mechanism.OOM_PROFILE,
        (
            STARTING,
            LOADED,
            '  File "/opt/vllm/gpu_worker.py", line 2, in determine_available_memory',
            '  File "/opt/vllm/gpu_model_runner.py", line 9, in _dummy_sampler_run',
            BARE,
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy",
        ),
    ),
    "compute buffers, llama.cpp": (
        Mechanism.OOM_PROFILE,
        (
            LOADED,
            BARE,
            "graph_reserve: failed to allocate compute buffers",
            "llama_init_from_model: failed to initialize the context",
            "srv    load_model: failed to load model, '/m.gguf'",
        ),
    ),
    "the cache of llama.cpp": (
        Mechanism.OOM_PROFILE,
        (LOADED, BARE, "llama_init_from_model: failed to allocate buffer for kv cache"),
    ),
    "between progress bars of a capture": (
        Mechanism.OOM_GRAPH_CAPTURE,
        (STARTING, LOADED, SIZED, CAPTURING, OUT),
    ),
    "in words of a capture": (
        Mechanism.OOM_GRAPH_CAPTURE,
        (
            LOADED,
            SIZED,
            '  File "/sgl/model_runner.py", line 3, in init_cuda_graphs',
            OUT,
            "Exception: Capture cuda graph failed: CUDA out of memory.",
        ),
    ),
    "after the graphs": (Mechanism.OOM_WARMUP, (LOADED, SIZED, CAPTURING, CAPTURED, OUT)),
    "in a warm-up without graphs": (
        Mechanism.OOM_WARMUP,
        (
            said(LogKind.WARMUP_STARTED, "INFO text_generation_router: Warming up model"),
            said(LogKind.OUT_OF_MEMORY, "ERROR warmup: Not enough memory to handle 4096 prefill"),
        ),
    ),
    "in a prefill batch": (
        Mechanism.OOM_PREFILL_TRANSIENT,
        (READY, "Prefill batch, #new-seq: 1, #new-token: 8192, token usage: 0.20", OUT),
    ),
    "in prompt log-probabilities": (
        Mechanism.OOM_PREFILL_TRANSIENT,
        (READY, '  File "/opt/vllm/runner.py", line 5, in _get_prompt_logprobs_dict', OUT),
    ),
    "in an encoder of images": (
        Mechanism.OOM_PREFILL_TRANSIENT,
        (READY, '  File "/opt/vllm/runner.py", line 7, in _execute_mm_encoder', OUT),
    ),
    "in a decode step that finds no slot": (
        Mechanism.OOM_DECODE_GROWTH,
        (
            "Decode batch. #running-req: 90, #token: 99000, token usage: 0.99",
            said(LogKind.OUT_OF_MEMORY, "RuntimeError: Decode out of memory. Try to lower"),
        ),
    ),
    "where a capture ends": (
        Mechanism.OOM_GRAPH_CAPTURE,
        (LOADED, SIZED, "    self.cuda_graph.capture_end()", OUT),
    ),
    "in TGI's decode, hours after its warm-up": (
        Mechanism.OOM_DECODE_GROWTH,
        (
            said(LogKind.KV_CACHE_SIZED, "INFO router: Setting max batch total tokens to 30816"),
            "ERROR text_generation_launcher: Method Decode encountered an error.",
            OUT,
        ),
    ),
    "in a cache that is grown by concatenation": (
        Mechanism.OOM_DECODE_GROWTH,
        (READY, '  File "/x/transformers/cache_utils.py", line 70, in update', OUT),
    ),
}


@pytest.mark.parametrize("where", CASES)
def test_only_the_rule_of_its_stage_speaks(where: str) -> None:
    mechanism, lines = CASES[where]
    assert set(_likely(window(*lines))) == {mechanism}


def test_the_figures_stand_as_the_allocator_wrote_them() -> None:
    verdict = _likely(window(STARTING, LOADED, SIZED, CAPTURING, OUT))[Mechanism.OOM_GRAPH_CAPTURE]
    assert {256, 100, 22, 14.99, 3.1} <= reckoned(verdict)


def test_a_rank_that_was_further_does_not_speak_for_the_one_that_died() -> None:
    captured = said(LogKind.GRAPH_CAPTURE_FINISHED, "[TP0] Capture cuda graph end.", rank="0")
    begun = said(LogKind.GRAPH_CAPTURE_STARTED, "[TP7] Capture cuda graph begin.", rank="7")
    out = said(LogKind.OUT_OF_MEMORY, "[TP7] CUDA out of memory.", rank="7")
    assert set(_likely(window(LOADED, SIZED, begun, captured, out))) == {
        Mechanism.OOM_GRAPH_CAPTURE
    }


def test_what_the_engine_got_over_is_no_failure() -> None:
    retried = "llama_context: compute buffer allocation failed, retrying without pipelining"
    assert _likely(window(LOADED, BARE, retried, READY)) == {}


def test_a_failure_of_an_earlier_start_does_not_lend_its_stage() -> None:
    assert set(
        _likely(window(STARTING, LOADED, SIZED, CAPTURING, OUT, STARTING, LOADING, OUT))
    ) == {Mechanism.OOM_GRAPH_CAPTURE}


def test_a_failure_without_a_stage_asks_for_the_log_and_guesses_nothing() -> None:
    found = window(BARE)
    assert _likely(found) == {}
    needs = {need for rule in MEMORY if (verdict := rule.judge(found)) for need in verdict.needs}
    assert "the log around the failure and its traceback" in needs


def test_a_failure_while_serving_without_more_asks_and_guesses_nothing() -> None:
    found = window(READY, OUT)
    assert _likely(found) == {}
    needs = {need for rule in MEMORY if (verdict := rule.judge(found)) for need in verdict.needs}
    assert "prompt length of the last request" in needs


def test_a_size_that_is_a_product_of_what_is_known_names_the_prefill() -> None:
    out = said(
        LogKind.OUT_OF_MEMORY,
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        wanted_bytes=2 * GIB,
        free_bytes=GIB,
    )
    found = _likely(window(READY, out, fact("chunk_tokens", 4096), fact("vocab_size", 131072)))
    assert set(found) == {Mechanism.OOM_PREFILL_TRANSIENT}
    assert {4096, 131_072, 4} <= reckoned(found[Mechanism.OOM_PREFILL_TRANSIENT])


def test_an_engine_that_did_not_run_out_is_left_alone() -> None:
    assert all(
        rule.judge(window(STARTING, LOADED, SIZED, CAPTURED, READY)) is None for rule in MEMORY
    )


def test_an_engine_that_refuses_to_start_for_want_of_a_cache_has_no_queue() -> None:
    refusal = (
        "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (4.62 GiB)."
    )
    found = window(said(LogKind.KV_CACHE_TOO_SMALL, refusal, needed_bytes=16 * 1024.0**3))
    verdict = PROFILE.judge(found)
    assert verdict is not None
    assert verdict.detail == "KV cache"
    assert NEVER_FITS.judge(found) is None
    beside = window("the prompt is larger than the KV cache")
    assert NEVER_FITS.judge(beside) is not None


def test_a_pool_that_has_nothing_for_the_only_request_is_decode_growth() -> None:
    line = "AssertionError: No space left for only one request, available_size()=0"
    part = read_log(f"[2026-03-02 14:21:41 TP0] Scheduler hit an exception:\n{line}\n")
    verdict = DECODE_GROWTH.judge(join([part]))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


def test_a_request_that_was_taken_before_says_that_the_engine_served() -> None:
    taken = "INFO 03-02 18:54:12 engine.py:267] Added request cmpl-8287-0."
    sizes = (fact("prompt_tokens", 8000), fact("vocabulary", 128256))
    wanted = said(
        LogKind.OUT_OF_MEMORY,
        "Tried to allocate 3.82 GiB. GPU 0 has 3.02 GiB free",
        wanted_bytes=3.82 * GIB,
        free_bytes=3.02 * GIB,
    )
    verdict = PREFILL_TRANSIENT.judge(window(taken, wanted, *sizes))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN
    assert PREFILL_TRANSIENT.judge(window(wanted, *sizes)) is None
