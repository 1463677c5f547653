"""Our own engine, one replica process."""

from dataplane import names
from dataplane.engine_metrics.alias import Alias, AliasTable, InfoAlias
from dataplane.engine_metrics.signal import Signal

REPLICA = AliasTable(
    engine="pilothouse",
    prefixes=("pilothouse_replica",),
    aliases=(
        Alias(names.REPLICA_ACTIVE_SEQUENCES, Signal.RUNNING),
        Alias(names.REPLICA_WAITING_REQUESTS, Signal.WAITING),
        Alias(names.REPLICA_MAX_NUM_SEQS, Signal.SEATS),
        Alias(names.REPLICA_UNRELEASED_REQUESTS, Signal.UNRELEASED),
        Alias(names.REPLICA_LEAKED_REQUESTS_TOTAL, Signal.LEAKED),
        Alias(names.REPLICA_KV_BLOCKS, Signal.KV_BLOCKS),
        Alias(names.REPLICA_KV_BLOCKS_FREE, Signal.KV_BLOCKS_FREE),
        Alias(names.REPLICA_KV_BLOCKS_REFERENCED, Signal.KV_BLOCKS_HELD),
        Alias(names.REPLICA_KV_BLOCKS_CACHED, Signal.KV_BLOCKS_CACHED),
        Alias(names.REPLICA_STEP_PROMPT_TOKENS, Signal.STEP_PROMPT_TOKENS),
        Alias(names.REPLICA_STEP_DECODE_STEPS, Signal.STEP_DECODES),
        Alias(
            names.REPLICA_SCHEDULED_PROMPT_TOKENS_TOTAL,
            Signal.COMPUTED_PROMPT_TOKENS,
        ),
        Alias(names.REPLICA_INPUT_TOKENS_TOTAL, Signal.PROMPT_TOKENS),
        Alias(names.REPLICA_OUTPUT_TOKENS_TOTAL, Signal.GENERATION_TOKENS),
        Alias(names.REPLICA_STEPS_TOTAL, Signal.STEPS),
        Alias(names.REPLICA_STEP_SECONDS, Signal.STEP_TIME),
        Alias(names.REPLICA_PREEMPTIONS_TOTAL, Signal.PREEMPTIONS),
        Alias(names.REPLICA_CANCEL_TO_RELEASE_SECONDS, Signal.CANCEL_TO_RELEASE),
    ),
    infos=(InfoAlias(exported=f"{names.REPLICA_INFO}_info"),),
    expected=frozenset(
        {Signal.STEPS, Signal.PREEMPTIONS, Signal.GENERATION_TOKENS, Signal.STEP_TIME}
    ),
    whole_from=8,
)
"""Its gauges are there once a step ran; the counters always."""
