"""Our own engine, one replica process."""

from dataplane import names
from dataplane.engine_metrics.alias import Alias, AliasTable, InfoAlias
from dataplane.engine_metrics.signal import Signal

REPLICA = AliasTable(
    engine="pilothouse",
    prefixes=("pilothouse_replica",),
    aliases=(
        Alias(exported=names.REPLICA_ACTIVE_SEQUENCES, signal=Signal.RUNNING),
        Alias(exported=names.REPLICA_WAITING_REQUESTS, signal=Signal.WAITING),
        Alias(exported=names.REPLICA_MAX_NUM_SEQS, signal=Signal.SEATS),
        Alias(exported=names.REPLICA_UNRELEASED_REQUESTS, signal=Signal.UNRELEASED),
        Alias(exported=names.REPLICA_LEAKED_REQUESTS_TOTAL, signal=Signal.LEAKED),
        Alias(exported=names.REPLICA_KV_BLOCKS, signal=Signal.KV_BLOCKS),
        Alias(exported=names.REPLICA_KV_BLOCKS_FREE, signal=Signal.KV_BLOCKS_FREE),
        Alias(exported=names.REPLICA_KV_BLOCKS_REFERENCED, signal=Signal.KV_BLOCKS_HELD),
        Alias(exported=names.REPLICA_KV_BLOCKS_CACHED, signal=Signal.KV_BLOCKS_CACHED),
        Alias(exported=names.REPLICA_STEP_PROMPT_TOKENS, signal=Signal.STEP_PROMPT_TOKENS),
        Alias(exported=names.REPLICA_STEP_DECODE_STEPS, signal=Signal.STEP_DECODES),
        Alias(
            exported=names.REPLICA_SCHEDULED_PROMPT_TOKENS_TOTAL,
            signal=Signal.COMPUTED_PROMPT_TOKENS,
        ),
        Alias(exported=names.REPLICA_INPUT_TOKENS_TOTAL, signal=Signal.PROMPT_TOKENS),
        Alias(exported=names.REPLICA_OUTPUT_TOKENS_TOTAL, signal=Signal.GENERATION_TOKENS),
        Alias(exported=names.REPLICA_STEPS_TOTAL, signal=Signal.STEPS),
        Alias(exported=names.REPLICA_STEP_SECONDS, signal=Signal.STEP_TIME),
        Alias(exported=names.REPLICA_PREEMPTIONS_TOTAL, signal=Signal.PREEMPTIONS),
        Alias(exported=names.REPLICA_CANCEL_TO_RELEASE_SECONDS, signal=Signal.CANCEL_TO_RELEASE),
    ),
    infos=(InfoAlias(exported=f"{names.REPLICA_INFO}_info"),),
    expected=frozenset(
        {Signal.STEPS, Signal.PREEMPTIONS, Signal.GENERATION_TOKENS, Signal.STEP_TIME}
    ),
    whole_from=8,
)
"""Its gauges are there once a step ran; the counters always."""
