"""SGLang. What it counts by step comes before what it counts by finished request: while long
answers run, the latter stands still."""

from dataplane.engine_metrics import signals
from dataplane.engine_metrics.alias import AliasTable, FactAlias, InfoAlias
from dataplane.engine_metrics.sglang import SGLANG as VOCABULARY
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables.meaning import SHARED, Meaning, aliases_of, plain

_INPUT = frozenset({"input"})
_TOTAL = frozenset({"total"})


def _work(mode: str, signal: Signal) -> Meaning:
    return Meaning(told_by=signals.WORK_TOKENS, signal=signal, only={"mode": frozenset({mode})})


_OWN = (
    _work("prefill_compute", Signal.COMPUTED_PROMPT_TOKENS),
    Meaning(
        told_by=signals.PROMPT_TOKENS_BY_SOURCE,
        signal=Signal.COMPUTED_PROMPT_TOKENS,
        only={"mode": _INPUT},
    ),
    _work("prefill_cache", Signal.CACHED_PROMPT_TOKENS),
    Meaning(
        told_by=signals.PROMPT_TOKENS_BY_SOURCE,
        signal=Signal.CACHED_PROMPT_TOKENS,
        without={"mode": _INPUT},
    ),
    Meaning(
        told_by=signals.PROMPT_TOKENS_CACHED,
        signal=Signal.CACHED_PROMPT_TOKENS,
        without={"cache_source": _TOTAL},
    ),
    _work("decode", Signal.GENERATION_TOKENS),
    plain(signals.GENERATION_TOKENS, Signal.GENERATION_TOKENS),
    plain(signals.FINISHED, Signal.FINISHED),
    Meaning(
        told_by=signals.RETRACTED_INPUT_TOKENS,
        signal=Signal.RETRACTED_TOKENS,
        fixed={"kind": "input"},
    ),
    Meaning(
        told_by=signals.RETRACTED_OUTPUT_TOKENS,
        signal=Signal.RETRACTED_TOKENS,
        fixed={"kind": "output"},
    ),
    Meaning(
        told_by=signals.STAGE_TIME,
        signal=Signal.PREFILL_TIME,
        only={"stage": frozenset({"prefill_forward"})},
    ),
    Meaning(told_by=signals.STAGE_TIME, signal=Signal.STAGE_TIME, keep={"stage": "stage"}),
    plain(signals.PREFILL_QUEUE, Signal.PREFILL_QUEUE),
    plain(signals.DECODE_QUEUE, Signal.DECODE_QUEUE),
    plain(signals.TRANSFER_QUEUE, Signal.TRANSFER_QUEUE),
)

_MEMORY = (
    "sglang:weight_memory_usage_gb",
    "sglang:kv_cache_memory_usage_gb",
    "sglang:startup_available_gpu_memory_gb",
    "sglang:context_len",
    "sglang:max_running_requests_under_SLO",
)

SGLANG = AliasTable(
    engine="sglang",
    prefixes=(VOCABULARY.prefix,),
    aliases=aliases_of(VOCABULARY, (*SHARED, *_OWN)),
    infos=(
        InfoAlias(
            exported="sglang:cache_config_info",
            signals={
                "page_size": Signal.KV_BLOCK_SIZE,
                "block_size": Signal.KV_BLOCK_SIZE,
                "num_pages": Signal.KV_BLOCKS,
                "num_gpu_blocks": Signal.KV_BLOCKS,
            },
        ),
    ),
    facts=(
        *(FactAlias(exported=name) for name in _MEMORY),
        FactAlias(exported="sglang:graph_memory_usage_gb", keep=("phase",)),
        FactAlias(exported="sglang:startup_time_seconds", keep=("phase",)),
        FactAlias(exported="sglang:startup_cuda_graph_time_seconds", keep=("phase",)),
    ),
    rank_labels=VOCABULARY.parallel_labels,
    copy_labels=VOCABULARY.copy_labels,
    total_labels=VOCABULARY.total_labels,
    expected=frozenset({Signal.RUNNING, Signal.WAITING, Signal.KV_USAGE, Signal.GENERATION_TOKENS}),
    whole_from=12,
)
