"""Every name that leaves a process: metrics, labels, spans, span events and attributes.

Dashboards, alerts and other people's queries depend on these, so each is written once and
here. Names that OpenTelemetry gives are in `dataplane.genai`. Metric names follow
Prometheus: base units, `_total` for counters; a counter is named here with its suffix.
"""

# --- Labels, on any process -------------------------------------------------------------
# Only sets that config bounds may become labels. A tenant is an unbounded one: it is never
# a label, the exact counts by tenant are in the control plane's request database.
LABEL_DEPLOYMENT = "deployment"
LABEL_REQUEST_CLASS = "request_class"
LABEL_DISPOSITION = "disposition"
LABEL_BOUNDARY = "boundary"
LABEL_OBJECTIVE = "objective"
LABEL_STATE = "state"
LABEL_GATEWAY = "gateway"
"""Its name, which survives restarts."""
LABEL_SIDE = "side"
"""client or engine: who told it."""
LABEL_REASON = "reason"
LABEL_CODE = "code"
NO_LABEL_VALUE = "none"
"""Stands where a request ended before it had a deployment or a class."""

# --- Spans ------------------------------------------------------------------------------
TELEMETRY_SCOPE = "pilothouse"
"""Instrumentation scope of our own spans."""
SPAN_REQUEST = "request"
SPAN_QUEUE = "queue"
SPAN_PREFILL = "prefill"
SPAN_DECODE = "decode"
SPAN_DELIVERY = "delivery"
SPAN_CLEANUP = "cleanup"
SPAN_FIRST_CONTENT_TRANSIT = "first_content_transit"
"""An interval of the waterfall; it is drawn, not exported."""
SPAN_NAMES = (
    SPAN_REQUEST,
    SPAN_QUEUE,
    SPAN_PREFILL,
    SPAN_DECODE,
    SPAN_DELIVERY,
    SPAN_CLEANUP,
)
"""The six exported spans, in the order they open."""

# --- Attributes of spans and of span events ---------------------------------------------
ATTRIBUTE_REQUEST_ID = "pilothouse.request.id"
ATTRIBUTE_GATEWAY_ID = "pilothouse.gateway.id"
ATTRIBUTE_TENANT = "pilothouse.tenant"
ATTRIBUTE_REQUEST_CLASS = "pilothouse.request.class"
ATTRIBUTE_DEPLOYMENT = "pilothouse.deployment"
ATTRIBUTE_MODEL_REVISION = "pilothouse.revision.model"
ATTRIBUTE_ENGINE_CONFIG_REVISION = "pilothouse.revision.engine_config"
ATTRIBUTE_CONTRACT_REVISION = "pilothouse.revision.contract"
ATTRIBUTE_POLICY_REVISION = "pilothouse.revision.policy"
ATTRIBUTE_SNAPSHOT_VERSION = "pilothouse.snapshot.version"
ATTRIBUTE_DISPOSITION = "pilothouse.disposition"
ATTRIBUTE_REASON = "pilothouse.reason"
ATTRIBUTE_DELIVERY = "pilothouse.delivery"
ATTRIBUTE_REPLICA_ID = "pilothouse.replica.id"
ATTRIBUTE_NUM_ATTEMPTS = "pilothouse.num_attempts"
ATTRIBUTE_IN_CONTRACT = "pilothouse.in_contract"
ATTRIBUTE_BOUNDARY = "pilothouse.boundary"
ATTRIBUTE_OBSERVABILITY = "pilothouse.observability"
ATTRIBUTE_CLEANUP_OBSERVABILITY = "pilothouse.cleanup.observability"
ATTRIBUTE_PROMPT_TOKENS_OBSERVABILITY = "pilothouse.prompt_tokens.observability"
ATTRIBUTE_OUTPUT_TOKENS_OBSERVABILITY = "pilothouse.output_tokens.observability"
ATTRIBUTE_START_ERROR_SECONDS = "pilothouse.start_error_seconds"
ATTRIBUTE_END_ERROR_SECONDS = "pilothouse.end_error_seconds"
ATTRIBUTE_ATTEMPT = "pilothouse.attempt"
ATTRIBUTE_SEQUENCE = "pilothouse.sequence"
ATTRIBUTE_NUM_TOKENS = "pilothouse.num_tokens"
ATTRIBUTE_NUM_CACHED_TOKENS = "pilothouse.num_cached_tokens"
ATTRIBUTE_NUM_WRITES = "pilothouse.num_writes"
ATTRIBUTE_WAITED_FOR_CLIENT_SECONDS = "pilothouse.waited_for_client_seconds"
ATTRIBUTE_IS_LEAKED = "pilothouse.is_leaked"
ATTRIBUTE_CLIENT_TTFT_SECONDS = "pilothouse.client.ttft_seconds"
ATTRIBUTE_CLIENT_E2E_SECONDS = "pilothouse.client.e2e_seconds"

# --- What a client tells, in a span of its own ------------------------------------------
# The span (kind CLIENT) starts when the request is sent; see ops/clients/ for one that does so.
EVENT_CLIENT_FIRST_CONTENT = "pilothouse.client.first_content"
"""Span event: the first nonempty content is there."""
EVENT_CLIENT_FINAL_CONTENT = "pilothouse.client.final_content"
"""Span event: the last content is there."""
ATTRIBUTE_CLIENT_MAX_CHUNK_GAP_SECONDS = "pilothouse.client.max_chunk_gap_seconds"
ATTRIBUTE_CLIENT_CLOCK_ERROR_SECONDS = "pilothouse.client.clock_error_seconds"
"""How far, at most, the client's clock is from the gateway's. Only who knows it may say it."""

# --- Gateway ----------------------------------------------------------------------------
GATEWAY_REQUESTS = "pilothouse_gateway_requests"
"""Gauge by state, all from one dated snapshot (invariant 5)."""
GATEWAY_REQUESTS_AT = "pilothouse_gateway_requests_at_seconds"
GATEWAY_QUEUED = "pilothouse_gateway_queued_requests"
GATEWAY_OLDEST_QUEUED_SECONDS = "pilothouse_gateway_oldest_queued_seconds"
GATEWAY_ENDED_TOTAL = "pilothouse_gateway_requests_ended_total"
GATEWAY_INPUT_TOKENS_TOTAL = "pilothouse_gateway_input_tokens_total"
GATEWAY_CACHED_INPUT_TOKENS_TOTAL = "pilothouse_gateway_cached_input_tokens_total"
GATEWAY_OUTPUT_TOKENS_TOTAL = "pilothouse_gateway_output_tokens_total"
GATEWAY_QUEUE_TIME_SECONDS = "pilothouse_gateway_queue_time_seconds"
GATEWAY_TTFT_SECONDS = "pilothouse_gateway_ttft_seconds"
GATEWAY_TPOT_SECONDS = "pilothouse_gateway_tpot_seconds"
GATEWAY_E2E_SECONDS = "pilothouse_gateway_e2e_seconds"
GATEWAY_OBJECTIVE_GOOD_TOTAL = "pilothouse_gateway_objective_good_total"
GATEWAY_OBJECTIVE_JUDGED_TOTAL = "pilothouse_gateway_objective_judged_total"
GATEWAY_IN_CONTRACT_TOTAL = "pilothouse_gateway_requests_in_contract_total"
GATEWAY_CONTRACT_JUDGED_TOTAL = "pilothouse_gateway_requests_judged_total"
GATEWAY_RECORDS_SPOOLED = "pilothouse_gateway_records_spooled"
GATEWAY_RECORDS_LOST_TOTAL = "pilothouse_gateway_records_lost_total"
GATEWAY_SPANS_DROPPED_TOTAL = "pilothouse_gateway_spans_dropped_total"
GATEWAY_SNAPSHOT_VERSION = "pilothouse_gateway_snapshot_version"

# --- Control plane -----------------------------------------------------------------------
CONTROLPLANE_REPLICAS = "pilothouse_controlplane_replicas"
CONTROLPLANE_GATEWAY_REPORT_AGE_SECONDS = "pilothouse_controlplane_gateway_report_age_seconds"
CONTROLPLANE_SNAPSHOT_VERSION = "pilothouse_controlplane_snapshot_version"
CONTROLPLANE_OPERATOR_PASSES = "pilothouse_controlplane_operator_passes_total"
CONTROLPLANE_OPERATOR_FAILURES = "pilothouse_controlplane_operator_failures_total"
CONTROLPLANE_SPAN_BATCHES_TOTAL = "pilothouse_controlplane_span_batches_total"
"""OTLP requests by the HTTP status they were answered with."""
CONTROLPLANE_SPANS_TAKEN_TOTAL = "pilothouse_controlplane_spans_taken_total"
CONTROLPLANE_SPANS_JOINED_TOTAL = "pilothouse_controlplane_spans_joined_total"
"""Those whose request was found, at once or later."""
CONTROLPLANE_SPANS_IGNORED_TOTAL = "pilothouse_controlplane_spans_ignored_total"
CONTROLPLANE_SPANS_DROPPED_TOTAL = "pilothouse_controlplane_spans_dropped_total"
"""Those that waited for a request that never came, or made room for newer ones."""
CONTROLPLANE_SPANS_WAITING = "pilothouse_controlplane_spans_waiting"

# --- Replica process (dataplane.host) ---------------------------------------------------
REPLICA_INFO = "pilothouse_replica"
"""Info metric: which replica the process is. The others carry no labels; join on instance."""
REPLICA_MAX_NUM_SEQS = "pilothouse_replica_max_num_seqs"
REPLICA_ACTIVE_SEQUENCES = "pilothouse_replica_active_sequences"
REPLICA_WAITING_REQUESTS = "pilothouse_replica_waiting_requests"
REPLICA_UNRELEASED_REQUESTS = "pilothouse_replica_unreleased_requests"
REPLICA_KV_BLOCKS = "pilothouse_replica_kv_blocks"
REPLICA_KV_BLOCKS_FREE = "pilothouse_replica_kv_blocks_free"
REPLICA_KV_BLOCKS_REFERENCED = "pilothouse_replica_kv_blocks_referenced"
REPLICA_KV_BLOCKS_CACHED = "pilothouse_replica_kv_blocks_cached"
REPLICA_STEP_PROMPT_TOKENS = "pilothouse_replica_step_prompt_tokens"
REPLICA_STEP_DECODE_STEPS = "pilothouse_replica_step_decode_steps"
REPLICA_SCHEDULED_PROMPT_TOKENS_TOTAL = "pilothouse_replica_scheduled_prompt_tokens_total"
REPLICA_SCHEDULED_DECODE_STEPS_TOTAL = "pilothouse_replica_scheduled_decode_steps_total"
REPLICA_STEPS_TOTAL = "pilothouse_replica_steps_total"
REPLICA_STEP_SECONDS = "pilothouse_replica_step_seconds"
REPLICA_INPUT_TOKENS_TOTAL = "pilothouse_replica_input_tokens_total"
REPLICA_OUTPUT_TOKENS_TOTAL = "pilothouse_replica_output_tokens_total"
REPLICA_PREEMPTIONS_TOTAL = "pilothouse_replica_preemptions_total"
REPLICA_LEAKED_REQUESTS_TOTAL = "pilothouse_replica_leaked_requests_total"
REPLICA_CANCEL_TO_RELEASE_SECONDS = "pilothouse_replica_cancel_to_release_seconds"
