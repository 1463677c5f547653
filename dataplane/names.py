"""Names of metrics and labels, in one place: who reads them (dashboards, alerts, diagnosis)
and who writes them must never spell them twice."""

# --- labels -------------------------------------------------------------------------------

LABEL_REPLICA = "replica_id"

# --- a replica process (dataplane.host) ---------------------------------------------------

REPLICA_MAX_NUM_SEQS = "pilothouse_replica_max_num_seqs"
REPLICA_ACTIVE_SEQS = "pilothouse_replica_active_sequences"
REPLICA_WAITING_REQUESTS = "pilothouse_replica_waiting_requests"
REPLICA_UNRELEASED_REQUESTS = "pilothouse_replica_unreleased_requests"
REPLICA_BLOCKS = "pilothouse_replica_kv_blocks"
REPLICA_FREE_BLOCKS = "pilothouse_replica_kv_blocks_free"
REPLICA_REFERENCED_BLOCKS = "pilothouse_replica_kv_blocks_referenced"
REPLICA_CACHED_BLOCKS = "pilothouse_replica_kv_blocks_cached"
REPLICA_STEP_PROMPT_TOKENS = "pilothouse_replica_step_prompt_tokens"
REPLICA_STEP_DECODE_STEPS = "pilothouse_replica_step_decode_steps"
REPLICA_SCHEDULED_PROMPT_TOKENS = "pilothouse_replica_scheduled_prompt_tokens_total"
REPLICA_SCHEDULED_DECODE_STEPS = "pilothouse_replica_scheduled_decode_steps_total"
REPLICA_STEPS = "pilothouse_replica_steps_total"
REPLICA_STEP_SECONDS = "pilothouse_replica_step_seconds"
REPLICA_INPUT_TOKENS = "pilothouse_replica_input_tokens_total"
REPLICA_OUTPUT_TOKENS = "pilothouse_replica_output_tokens_total"
REPLICA_PREEMPTIONS = "pilothouse_replica_preemptions_total"
REPLICA_LEAKS = "pilothouse_replica_leaked_requests_total"
REPLICA_CANCEL_TO_RELEASE_SECONDS = "pilothouse_replica_cancel_to_release_seconds"
