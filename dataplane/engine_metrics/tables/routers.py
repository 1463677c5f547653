"""Routers before engines: Dynamo's front end, llm-d's endpoint picker, the routers of SGLang and of
vLLM's production stack. Whom they count by worker, server or endpoint is a replica here."""

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
        Alias(f"{_FRONT}active_requests", Signal.GATEWAY_IN_FLIGHT),
        Alias(f"{_FRONT}inflight_requests", Signal.GATEWAY_IN_FLIGHT),
        Alias(f"{_FRONT}router_queue_pending_requests", Signal.GATEWAY_QUEUED),
        Alias(f"{_FRONT}queued_requests", Signal.GATEWAY_QUEUED),
        Alias(
            f"{_FRONT}requests_total",
            Signal.GATEWAY_ENDED,
            keep={"status": "disposition"},
        ),
        Alias(f"{_FRONT}disconnected_clients", Signal.ABORTED),
        Alias(f"{_FRONT}time_to_first_token_seconds", Signal.GATEWAY_TTFT),
        Alias(f"{_FRONT}inter_token_latency_seconds", Signal.GATEWAY_ITL),
        Alias(f"{_FRONT}request_duration_seconds", Signal.GATEWAY_E2E),
        Alias(f"{_FRONT}input_sequence_tokens", Signal.PROMPT_LENGTH),
        Alias(f"{_FRONT}output_sequence_tokens", Signal.OUTPUT_LENGTH),
        Alias(f"{_FRONT}output_tokens_total", Signal.GATEWAY_OUTPUT_TOKENS),
        Alias(
            f"{_FRONT}worker_active_decode_blocks",
            Signal.KV_BLOCKS_HELD,
            keep=_WORKER,
        ),
        Alias(
            f"{_FRONT}worker_active_prefill_tokens",
            Signal.PROMPT_BACKLOG,
            keep=_WORKER,
        ),
        Alias(f"{_COMPONENT}inflight_requests", Signal.RUNNING, keep=_WORKER),
        Alias(
            f"{_COMPONENT}errors_total",
            Signal.FAILED,
            keep={"error_type": "reason", **_WORKER},
        ),
        Alias(f"{_COMPONENT}router_kv_hit_rate", Signal.HIT_RATE),
    ),
)

LLM_D = AliasTable(
    engine=None,
    prefixes=("llm_d_epp_",),
    aliases=(
        Alias("llm_d_epp_request_total", Signal.GATEWAY_ARRIVED),
        Alias(
            "llm_d_epp_request_error_total",
            Signal.FAILED,
            keep={"error_code": "reason"},
        ),
        Alias("llm_d_epp_request_running", Signal.GATEWAY_IN_FLIGHT),
        Alias("llm_d_epp_request_ttft_seconds", Signal.GATEWAY_TTFT),
        Alias("llm_d_epp_request_streaming_itl_seconds", Signal.GATEWAY_ITL),
        Alias("llm_d_epp_request_duration_seconds", Signal.GATEWAY_E2E),
        Alias("llm_d_epp_per_endpoint_queue_size", Signal.WAITING, keep=_ENDPOINT),
        Alias("llm_d_epp_flow_control_queue_size", Signal.GATEWAY_QUEUED),
        Alias("llm_d_epp_flow_control_pool_saturation", Signal.ROUTED_FULL),
        Alias(
            "llm_d_epp_flow_control_request_queue_duration_seconds",
            Signal.GATEWAY_QUEUE_TIME,
        ),
    ),
)
"""Its averages over the pool are left out: they would be added to what each endpoint says."""

SGLANG_ROUTER = AliasTable(
    engine=None,
    prefixes=("sgl_router_",),
    aliases=(
        Alias(
            "sgl_router_running_requests",
            Signal.ROUTED_IN_FLIGHT,
            keep={"worker": "replica"},
        ),
    ),
)

_SERVER = {"server": "replica"}

VLLM_ROUTER = AliasTable(
    engine=None,
    prefixes=("vllm:current_qps", "vllm:num_prefill_requests", "vllm:num_decoding_requests"),
    aliases=(
        Alias(
            "vllm:num_prefill_requests",
            Signal.ROUTED_IN_FLIGHT,
            keep=_SERVER,
            fixed={"stage": "prefill"},
        ),
        Alias(
            "vllm:num_decoding_requests",
            Signal.ROUTED_IN_FLIGHT,
            keep=_SERVER,
            fixed={"stage": "decode"},
        ),
        Alias("vllm:current_qps", Signal.ARRIVAL_RATE, keep=_SERVER),
    ),
)
"""Of vLLM's production stack. It repeats its engines' own figures under their own names."""
