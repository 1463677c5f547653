"""In which stage of its life an engine was, by the lines of its log.

Each engine starts in the same order: weights, a profiling run, the KV cache, graphs, warm-up; then
it serves. The functions in a traceback and an engine's own words say the stage outright; where
neither does, the last line that closed a stage says which came next.
"""

import re
from enum import StrEnum

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.views.place import place_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal


class Stage(StrEnum):
    """Where memory ran out."""

    BEFORE_LOAD = "before weights were loaded"
    LOAD = "loading weights"
    PROFILE = "profiling"
    KV_CACHE = "placing the KV cache"
    CAPTURE = "capturing graphs"
    WARMUP = "warming up"
    PREFILL = "prefill"
    DECODE = "decode"
    SERVING = "serving"
    UNKNOWN = "unknown"

    @property
    def is_serving(self) -> bool:
        """It had come up."""
        return self in (Stage.PREFILL, Stage.DECODE, Stage.SERVING)


_STARTING_WORDS: tuple[tuple[Stage, re.Pattern[str]], ...] = tuple(
    (stage, re.compile(words, re.IGNORECASE))
    for stage, words in (
        (
            Stage.CAPTURE,
            r"\bin capture\w*|capture_model|capture_graphs?\b|_capture_cudagraphs|"
            r"capture_one_batch_size|_warmup_and_capture|init_graph|"
            r"captur(e|ing) (of )?(cuda|hip|npu)? ?graphs?|(cuda|hip) ?graphs? captur|"
            r"init_(cuda|device|npu)_graphs?|graph capture|torch\.(cuda|npu)\.graph\(|"
            r"\.capture_(begin|end)\(",
        ),
        (
            Stage.PROFILE,
            r"profile_run|_profile_|profile_cudagraph|profile_max_num_token|determine_num_available_"
            r"blocks|determine_available_memory|profiling run|profile run|memory profiling|"
            r"profile the (memory|peak)|graph_reserve|sched_reserve|failed to (allocate|reserve) "
            r"compute|compute (pp|tg) buffers|estimate_max_tokens|_estimate_peak",
        ),
        (
            Stage.KV_CACHE,
            r"could not be created: kv cache|for (the )?kv[ _-]?cache|"
            r"kv_cache\w*(init|_tensors|: failed)|initialize_kv_cache|"
            r"init_memory_pool|allocate_kv_cache|self-attention cache|create_kv_cache|"
            r"TokenToKVPool|cache_engine\.py|increase --mem-fraction-static|"
            r"no available memory for the cache blocks|not enough .*for (the )?kv cache",
        ),
        (
            Stage.LOAD,
            r"load_model\b|load_weights|weight_loader|create_weights|process_weights_after_loading|"
            r"initialize_model|model_loader|loading (safetensors|pt|checkpoint|weights|model)|"
            r"llama_model_load|load_tensors|unable to allocate \S+ buffer|error loading model|"
            r"load_single_module|deserializ\w+ (the )?engine|weights? memory|"
            r"could not be created: (model|weights)|"
            r"llm_load_tensors|shard \d+ failed to load|load_checkpoint",
        ),
        (
            Stage.WARMUP,
            r"warm(ing|ed)?[ _-]?up|autotun(e|ing)|dummy requests|kernel_warmup|empty run|"
            r"deep_?gemm|pre-?compile",
        ),
    )
)
"""Asked of one line in this order: a capture warms up, and a warm-up runs what a profile runs."""

_SERVING_WORDS: tuple[tuple[Stage, re.Pattern[str]], ...] = tuple(
    (stage, re.compile(words, re.IGNORECASE))
    for stage, words in (
        (
            Stage.DECODE,
            r"decode out of memory|forward_decode|_decode_step|batch_decode|cuda_graph_runner\.py.*"
            r"replay|method=.?decode|kv cache is full|failed to find (a |free )*(memory )?"
            r"(slot|space)|out of kv ?cache|dynamiccache|cache_utils\.py|generate_token\b|"
            r"method decode encountered|no free blocks|during decod|decode batch|decode phase",
        ),
        (
            Stage.PREFILL,
            r"prefill|forward_extend|prompt_logprobs|logprob_start|get_prompt_logprobs|mm_encoder|"
            r"multi_?modal|image_processor|\bvisual\b|pixel_values|image_embeds|_vl\.py|"
            r"vision|encode_image|embed_multimodal|context phase|"
            r"prompt processing|decode: failed to process prompt",
        ),
    )
)

_AFTER = {
    LogKind.STARTING: Stage.BEFORE_LOAD,
    LogKind.WEIGHTS_LOADING: Stage.LOAD,
    LogKind.WEIGHTS_LOADED: Stage.PROFILE,
    LogKind.PROFILING: Stage.PROFILE,
    LogKind.MEMORY_SPLIT: Stage.KV_CACHE,
    LogKind.KV_CACHE_SIZED: Stage.CAPTURE,
    LogKind.GRAPH_CAPTURE_STARTED: Stage.CAPTURE,
    LogKind.GRAPH_CAPTURE_FINISHED: Stage.WARMUP,
    LogKind.WARMUP_STARTED: Stage.WARMUP,
    LogKind.INITIALIZED: Stage.WARMUP,
    LogKind.READY: Stage.SERVING,
    LogKind.PREEMPTED: Stage.SERVING,
    LogKind.RETRACTED: Stage.SERVING,
    LogKind.PROMPT_STARTED: Stage.PREFILL,
    LogKind.PROMPT_EVALUATED: Stage.SERVING,
    LogKind.GENERATED: Stage.SERVING,
}
"""What an engine does after it said this. Weights that are in are followed by a profiling run
(vLLM, TensorRT-LLM) or by sizing the cache; a cache that is sized, by graphs."""
_LAST_OF_A_START = re.compile(r"Setting max batch total tokens to", re.IGNORECASE)
"""TGI's router says this of its cache when the warm-up is over, and takes requests then."""
_STATES_WHAT_RUNS = frozenset(
    {
        LogKind.WEIGHTS_LOADING,
        LogKind.PROFILING,
        LogKind.GRAPH_CAPTURE_STARTED,
        LogKind.WARMUP_STARTED,
    }
)
"""These say what is being done, the others only what has ended."""

_MOST_LINES_BACK = 5000
"""How far above a failure the last sign of serving is looked for."""
_SERVING_LINE = re.compile(
    r"Avg prompt throughput|Decode batch|Prefill batch|Processed prompts:|prompt eval time|"
    r"slot +(launch_slot_|update_slots|print_timing)|(Added|Received) request |"
    r"POST /\S*(completions?|generate|chat|infer)",
    re.IGNORECASE,
)
_PREFILL_LINE = re.compile(
    r"Prefill batch|Processed prompts:\s+0%|new prompt, |"
    r"prompt processing progress|processing task",
    re.IGNORECASE,
)
_DECODE_LINE = re.compile(r"Decode batch|n_decoded", re.IGNORECASE)
_FRESH_START = re.compile(
    r"Initializing an? (V1 )?LLM engine|server_args=|build: \d+|Starting to load model|"
    r"launch_server|Launching (TGI|shard)",
    re.IGNORECASE,
)


def named_stage(lines: tuple[str, ...], *, is_serving: bool) -> tuple[Stage, str] | None:
    """What the lines around a failure say outright, the first of `lines` first, and which does.

    An engine that serves is not starting, whatever its functions are called; before that, no word
    of serving counts.
    """
    for line in lines:
        for stage, words in _SERVING_WORDS if is_serving else _STARTING_WORDS:
            if words.search(line):
                return stage, line
    return None


def stage_by_order(window: Window, failed: LogEvent, rank: str | None) -> tuple[Stage, str, bool]:
    """The stage in which the log was when `failed` was written, the line that says so, and whether
    that line says what was being done (or only what had ended)."""
    stage, line, is_said = Stage.UNKNOWN, "", False
    told = [event for event in window.events if event.index < failed.index and event.kind in _AFTER]
    own = [event for event in told if event.words.get("rank", rank) == rank]
    for event in (own or told)[-1:]:
        is_over = _LAST_OF_A_START.search(event.line)
        stage, line = Stage.SERVING if is_over else _AFTER[event.kind], event.line
        is_said = event.kind in _STATES_WHAT_RUNS
    place = place_of(window, failed)
    last = _last_serving(window.lines[max(0, place - _MOST_LINES_BACK) : place])
    if last is not None:
        return last
    if stage is Stage.UNKNOWN:
        served = _had_served(window, failed)
        return (Stage.SERVING, served, False) if served else (stage, line, is_said)
    return stage, line, is_said


def _had_served(window: Window, failed: LogEvent) -> str:
    """By its counters, where the log begins with the failure: tokens were generated before."""
    for series in window.all_series(Signal.GENERATION_TOKENS):
        before = failed.at is None or series.first.at <= failed.at
        if before and series.first.value > 0:
            return f"{series.origin.name} {series.first.raw} before it"
    return ""


def _last_serving(lines: tuple[str, ...]) -> tuple[Stage, str, bool] | None:
    for line in reversed(lines):
        if _FRESH_START.search(line):
            return None
        if _PREFILL_LINE.search(line):
            return Stage.PREFILL, line, True
        if _DECODE_LINE.search(line):
            return Stage.DECODE, line, True
        if _SERVING_LINE.search(line):
            return Stage.SERVING, line, False
    return None
