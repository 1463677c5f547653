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
        Alias(exported="tgi_batch_current_size", signal=Signal.RUNNING),
        Alias(exported="tgi_queue_size", signal=Signal.WAITING),
        Alias(exported="tgi_batch_current_max_tokens", signal=Signal.CONTEXT_TOKENS),
        Alias(exported="tgi_batch_max_total_tokens", signal=Signal.KV_CAPACITY),
        Alias(exported="tgi_request_count", signal=Signal.RECEIVED),
        Alias(exported="tgi_request_success", signal=Signal.FINISHED),
        Alias(
            exported="tgi_request_failure",
            signal=Signal.FAILED,
            without={"err": _GONE | _REFUSED},
            keep={"err": "reason"},
        ),
        Alias(
            exported="tgi_request_failure",
            signal=Signal.REJECTED,
            only={"err": _REFUSED},
            keep={"err": "reason"},
        ),
        Alias(exported="tgi_request_failure", signal=Signal.ABORTED, only={"err": _GONE}),
        Alias(exported="tgi_request_duration", signal=Signal.E2E),
        Alias(exported="tgi_request_queue_duration", signal=Signal.QUEUE_TIME),
        Alias(exported="tgi_request_mean_time_per_token_duration", signal=Signal.TPOT),
        Alias(exported="tgi_request_input_length", signal=Signal.PROMPT_LENGTH),
        Alias(exported="tgi_request_generated_tokens", signal=Signal.OUTPUT_LENGTH),
        Alias(
            exported="tgi_batch_inference_duration",
            signal=Signal.STAGE_TIME,
            only={"method": _PREFILL | _DECODE},
            keep={"method": "stage"},
        ),
        Alias(
            exported="tgi_batch_forward_duration",
            signal=Signal.STEP_TIME,
            keep={"method": "stage"},
        ),
        Alias(exported="tgi_batch_inference_count", signal=Signal.STEPS, keep={"method": "stage"}),
    ),
    facts=(FactAlias(exported="tgi_queue_limit"),),
    expected=frozenset({Signal.RUNNING, Signal.WAITING, Signal.RECEIVED}),
    whole_from=10,
)
