"""vLLM, V0 and V1."""

from dataplane.engine_metrics import signals
from dataplane.engine_metrics.alias import AliasTable, InfoAlias
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables.meaning import SHARED, Meaning, aliases_of, plain
from dataplane.engine_metrics.vllm import VLLM as VOCABULARY

_COMPUTED = frozenset({"local_compute", "compute", "computed"})
_ABORT = frozenset({"abort"})
_ERROR = frozenset({"error"})

_OWN = (
    Meaning(
        told_by=signals.WAITING_BY_REASON,
        signal=Signal.WAITING_BY_REASON,
        keep={"reason": "reason"},
    ),
    Meaning(
        told_by=signals.PROMPT_TOKENS_BY_SOURCE,
        signal=Signal.COMPUTED_PROMPT_TOKENS,
        only={"source": _COMPUTED},
    ),
    plain(signals.PROMPT_TOKENS_CACHED, Signal.CACHED_PROMPT_TOKENS),
    Meaning(
        told_by=signals.PROMPT_TOKENS_BY_SOURCE,
        signal=Signal.CACHED_PROMPT_TOKENS,
        without={"source": _COMPUTED},
    ),
    plain(signals.GENERATION_TOKENS, Signal.GENERATION_TOKENS),
    Meaning(
        told_by=signals.FINISHED,
        signal=Signal.FINISHED,
        without={"finished_reason": _ABORT | _ERROR},
        keep={"finished_reason": "reason"},
    ),
    Meaning(told_by=signals.FINISHED, signal=Signal.ABORTED, only={"finished_reason": _ABORT}),
    Meaning(told_by=signals.FINISHED, signal=Signal.FAILED, only={"finished_reason": _ERROR}),
    Meaning(told_by=signals.REJECTED, signal=Signal.REJECTED, keep={"reason": "reason"}),
    Meaning(
        told_by=signals.SLEEP_STATE,
        signal=Signal.SLEEPING,
        without={"sleep_state": frozenset({"awake"})},
    ),
)

VLLM = AliasTable(
    engine="vllm",
    prefixes=(VOCABULARY.prefix,),
    aliases=aliases_of(VOCABULARY, (*SHARED, *_OWN)),
    infos=(
        InfoAlias(
            exported="vllm:cache_config_info",
            signals={
                "block_size": Signal.KV_BLOCK_SIZE,
                "num_gpu_blocks": Signal.KV_BLOCKS,
                "kv_cache_size_tokens": Signal.KV_CAPACITY,
            },
        ),
    ),
    rank_labels=VOCABULARY.parallel_labels,
    expected=frozenset(
        {
            Signal.RUNNING,
            Signal.WAITING,
            Signal.KV_USAGE,
            Signal.PREEMPTIONS,
            Signal.PROMPT_TOKENS,
            Signal.GENERATION_TOKENS,
            Signal.TTFT,
        }
    ),
    whole_from=16,
)
