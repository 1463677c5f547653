"""Routers before engines: Dynamo's front end, llm-d's endpoint picker, SGLang's router. Whom they
count by worker or endpoint is a replica here."""

from dataplane.engine_metrics.alias import Alias, AliasTable
from dataplane.engine_metrics.signal import Signal

_WORKER = {"worker_id": "replica"}
_ENDPOINT = {"name": "pool", "model_server_pod": "replica", "endpoint": "replica"}
_FRONT = "dynamo_frontend_"
_COMPONENT = "dynamo_component_"

DYNAMO = AliasTable(
    engine=None,
    prefixes=("dynamo_",),
    aliases=(
        Alias(exported=f"{_FRONT}active_requests", signal=Signal.GATEWAY_IN_FLIGHT),
        Alias(exported=f"{_FRONT}inflight_requests", signal=Signal.GATEWAY_IN_FLIGHT),
        Alias(exported=f"{_FRONT}router_queue_pending_requests", signal=Signal.GATEWAY_QUEUED),
        Alias(exported=f"{_FRONT}queued_requests", signal=Signal.GATEWAY_QUEUED),
        Alias(
            exported=f"{_FRONT}requests_total",
            signal=Signal.GATEWAY_ENDED,
            keep={"status": "disposition"},
        ),
        Alias(exported=f"{_FRONT}disconnected_clients", signal=Signal.ABORTED),
        Alias(exported=f"{_FRONT}time_to_first_token_seconds", signal=Signal.GATEWAY_TTFT),
        Alias(exported=f"{_FRONT}inter_token_latency_seconds", signal=Signal.GATEWAY_ITL),
        Alias(exported=f"{_FRONT}request_duration_seconds", signal=Signal.GATEWAY_E2E),
        Alias(exported=f"{_FRONT}input_sequence_tokens", signal=Signal.PROMPT_LENGTH),
        Alias(exported=f"{_FRONT}output_sequence_tokens", signal=Signal.OUTPUT_LENGTH),
        Alias(exported=f"{_FRONT}output_tokens_total", signal=Signal.GATEWAY_OUTPUT_TOKENS),
        Alias(
            exported=f"{_FRONT}worker_active_decode_blocks",
            signal=Signal.KV_BLOCKS_HELD,
            keep=_WORKER,
        ),
        Alias(
            exported=f"{_FRONT}worker_active_prefill_tokens",
            signal=Signal.PROMPT_BACKLOG,
            keep=_WORKER,
        ),
        Alias(exported=f"{_COMPONENT}inflight_requests", signal=Signal.RUNNING, keep=_WORKER),
        Alias(
            exported=f"{_COMPONENT}errors_total",
            signal=Signal.FAILED,
            keep={"error_type": "reason", **_WORKER},
        ),
        Alias(exported=f"{_COMPONENT}router_kv_hit_rate", signal=Signal.HIT_RATE),
    ),
)

LLM_D = AliasTable(
    engine=None,
    prefixes=("llm_d_epp_",),
    aliases=(
        Alias(exported="llm_d_epp_request_total", signal=Signal.GATEWAY_ARRIVED),
        Alias(
            exported="llm_d_epp_request_error_total",
            signal=Signal.FAILED,
            keep={"error_code": "reason"},
        ),
        Alias(exported="llm_d_epp_request_running", signal=Signal.GATEWAY_IN_FLIGHT),
        Alias(exported="llm_d_epp_request_ttft_seconds", signal=Signal.GATEWAY_TTFT),
        Alias(exported="llm_d_epp_request_streaming_itl_seconds", signal=Signal.GATEWAY_ITL),
        Alias(exported="llm_d_epp_request_duration_seconds", signal=Signal.GATEWAY_E2E),
        Alias(exported="llm_d_epp_per_endpoint_queue_size", signal=Signal.WAITING, keep=_ENDPOINT),
        Alias(exported="llm_d_epp_flow_control_queue_size", signal=Signal.GATEWAY_QUEUED),
        Alias(
            exported="llm_d_epp_flow_control_request_queue_duration_seconds",
            signal=Signal.GATEWAY_QUEUE_TIME,
        ),
    ),
)
"""Its averages over the pool are left out: they would be added to what each endpoint says."""

SGLANG_ROUTER = AliasTable(
    engine=None,
    prefixes=("sgl_router_",),
    aliases=(
        Alias(
            exported="sgl_router_running_requests",
            signal=Signal.ROUTED_IN_FLIGHT,
            keep={"worker": "replica"},
        ),
    ),
)
