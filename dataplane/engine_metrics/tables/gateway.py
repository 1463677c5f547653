"""Our own gateway."""

from dataplane import names
from dataplane.engine_metrics.alias import Alias, AliasTable
from dataplane.engine_metrics.signal import Signal

_CLASS = {names.LABEL_DEPLOYMENT: "deployment", names.LABEL_REQUEST_CLASS: "request_class"}

GATEWAY = AliasTable(
    engine=None,
    prefixes=("pilothouse_gateway",),
    aliases=(
        Alias(
            names.GATEWAY_REQUESTS,
            Signal.GATEWAY_IN_FLIGHT,
            only={names.LABEL_STATE: frozenset({"active"})},
        ),
        Alias(
            names.GATEWAY_REQUESTS,
            Signal.GATEWAY_ARRIVED,
            only={names.LABEL_STATE: frozenset({"arrived"})},
        ),
        Alias(names.GATEWAY_QUEUED, Signal.GATEWAY_QUEUED, keep=_CLASS),
        Alias(
            names.GATEWAY_OLDEST_QUEUED_SECONDS,
            Signal.GATEWAY_OLDEST_QUEUED,
            keep=_CLASS,
        ),
        Alias(
            names.GATEWAY_ENDED_TOTAL,
            Signal.GATEWAY_ENDED,
            keep={**_CLASS, names.LABEL_DISPOSITION: "disposition"},
        ),
        Alias(
            names.GATEWAY_REJECTED_TOTAL,
            Signal.GATEWAY_REJECTED,
            keep={**_CLASS, names.LABEL_REASON: "reason"},
        ),
        Alias(names.GATEWAY_DEGRADED_TOTAL, Signal.GATEWAY_DEGRADED, keep=_CLASS),
        Alias(
            names.GATEWAY_SLOW_CLIENTS_TOTAL,
            Signal.GATEWAY_SLOW_CLIENTS,
            keep={names.LABEL_DEPLOYMENT: "deployment", names.LABEL_KIND: "kind"},
        ),
        Alias(
            names.GATEWAY_HELD_BACK_REPLICAS,
            Signal.GATEWAY_HELD_BACK_REPLICAS,
            keep={names.LABEL_DEPLOYMENT: "deployment"},
        ),
        Alias(names.GATEWAY_INPUT_TOKENS_TOTAL, Signal.GATEWAY_PROMPT_TOKENS),
        Alias(names.GATEWAY_CACHED_INPUT_TOKENS_TOTAL, Signal.GATEWAY_CACHED_TOKENS),
        Alias(names.GATEWAY_OUTPUT_TOKENS_TOTAL, Signal.GATEWAY_OUTPUT_TOKENS),
        Alias(names.GATEWAY_TTFT_SECONDS, Signal.GATEWAY_TTFT, keep=_CLASS),
        Alias(names.GATEWAY_TPOT_SECONDS, Signal.GATEWAY_TPOT, keep=_CLASS),
        Alias(names.GATEWAY_E2E_SECONDS, Signal.GATEWAY_E2E, keep=_CLASS),
        Alias(names.GATEWAY_LONGEST_GAP_SECONDS, Signal.GATEWAY_LONGEST_GAP, keep=_CLASS),
        Alias(
            names.GATEWAY_QUEUE_TIME_SECONDS,
            Signal.GATEWAY_QUEUE_TIME,
            keep=_CLASS,
        ),
    ),
)
