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
            exported=names.GATEWAY_REQUESTS,
            signal=Signal.GATEWAY_IN_FLIGHT,
            only={names.LABEL_STATE: frozenset({"active"})},
        ),
        Alias(
            exported=names.GATEWAY_REQUESTS,
            signal=Signal.GATEWAY_ARRIVED,
            only={names.LABEL_STATE: frozenset({"arrived"})},
        ),
        Alias(exported=names.GATEWAY_QUEUED, signal=Signal.GATEWAY_QUEUED, keep=_CLASS),
        Alias(
            exported=names.GATEWAY_OLDEST_QUEUED_SECONDS,
            signal=Signal.GATEWAY_OLDEST_QUEUED,
            keep=_CLASS,
        ),
        Alias(
            exported=names.GATEWAY_ENDED_TOTAL,
            signal=Signal.GATEWAY_ENDED,
            keep={**_CLASS, names.LABEL_DISPOSITION: "disposition"},
        ),
        Alias(
            exported=names.GATEWAY_REJECTED_TOTAL,
            signal=Signal.GATEWAY_REJECTED,
            keep={**_CLASS, names.LABEL_REASON: "reason"},
        ),
        Alias(exported=names.GATEWAY_DEGRADED_TOTAL, signal=Signal.GATEWAY_DEGRADED, keep=_CLASS),
        Alias(
            exported=names.GATEWAY_SLOW_CLIENTS_TOTAL,
            signal=Signal.GATEWAY_SLOW_CLIENTS,
            keep={names.LABEL_DEPLOYMENT: "deployment", names.LABEL_KIND: "kind"},
        ),
        Alias(
            exported=names.GATEWAY_HELD_BACK_REPLICAS,
            signal=Signal.GATEWAY_HELD_BACK_REPLICAS,
            keep={names.LABEL_DEPLOYMENT: "deployment"},
        ),
        Alias(exported=names.GATEWAY_INPUT_TOKENS_TOTAL, signal=Signal.GATEWAY_PROMPT_TOKENS),
        Alias(
            exported=names.GATEWAY_CACHED_INPUT_TOKENS_TOTAL, signal=Signal.GATEWAY_CACHED_TOKENS
        ),
        Alias(exported=names.GATEWAY_OUTPUT_TOKENS_TOTAL, signal=Signal.GATEWAY_OUTPUT_TOKENS),
        Alias(exported=names.GATEWAY_TTFT_SECONDS, signal=Signal.GATEWAY_TTFT, keep=_CLASS),
        Alias(exported=names.GATEWAY_TPOT_SECONDS, signal=Signal.GATEWAY_TPOT, keep=_CLASS),
        Alias(exported=names.GATEWAY_E2E_SECONDS, signal=Signal.GATEWAY_E2E, keep=_CLASS),
        Alias(
            exported=names.GATEWAY_QUEUE_TIME_SECONDS,
            signal=Signal.GATEWAY_QUEUE_TIME,
            keep=_CLASS,
        ),
    ),
)
