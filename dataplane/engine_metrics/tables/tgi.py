"""Hugging Face's text-generation-inference. It tells no TTFT; prefill and decode are apart by the
label `method`."""

from dataplane.engine_metrics.alias import Alias, AliasTable, FactAlias
from dataplane.engine_metrics.signal import Signal

_PREFILL = frozenset({"prefill"})
_DECODE = frozenset({"decode"})
_GONE = frozenset({"dropped"})
"""`tgi_request_failure{err="dropped"}`: the client left."""
_REFUSED = frozenset({"overloaded", "validation"})

TGI = AliasTable(
    engine="tgi",
    prefixes=("tgi_",),
    aliases=(
        Alias("tgi_batch_current_size", Signal.RUNNING),
        Alias("tgi_queue_size", Signal.WAITING),
        Alias("tgi_batch_current_max_tokens", Signal.CONTEXT_TOKENS),
        Alias("tgi_batch_max_total_tokens", Signal.KV_CAPACITY),
        Alias("tgi_request_count", Signal.RECEIVED),
        Alias("tgi_request_success", Signal.FINISHED),
        Alias(
            "tgi_request_failure",
            Signal.FAILED,
            without={"err": _GONE | _REFUSED},
            keep={"err": "reason"},
        ),
        Alias(
            "tgi_request_failure",
            Signal.REJECTED,
            only={"err": _REFUSED},
            keep={"err": "reason"},
        ),
        Alias("tgi_request_failure", Signal.ABORTED, only={"err": _GONE}),
        Alias("tgi_request_duration", Signal.E2E),
        Alias("tgi_request_queue_duration", Signal.QUEUE_TIME),
        Alias("tgi_request_mean_time_per_token_duration", Signal.TPOT),
        Alias("tgi_request_input_length", Signal.PROMPT_LENGTH),
        Alias("tgi_request_generated_tokens", Signal.OUTPUT_LENGTH),
        Alias(
            "tgi_batch_inference_duration",
            Signal.STAGE_TIME,
            only={"method": _PREFILL | _DECODE},
            keep={"method": "stage"},
        ),
        Alias(
            "tgi_batch_forward_duration",
            Signal.STEP_TIME,
            keep={"method": "stage"},
        ),
        Alias("tgi_batch_inference_count", Signal.STEPS, keep={"method": "stage"}),
    ),
    facts=(FactAlias(exported="tgi_queue_limit"),),
    expected=frozenset({Signal.RUNNING, Signal.WAITING, Signal.RECEIVED}),
    whole_from=10,
)
