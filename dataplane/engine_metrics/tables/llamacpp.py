"""llama.cpp's server, which exports with --metrics. Sources: its `tools/server/server-task.cpp` and
README.

It tells no latencies, and in current versions no KV usage. Tokens, and the drafts for them, are
counted when a request, or its prompt, is done; decode calls as they go."""

from dataplane.engine_metrics.alias import Alias, AliasTable
from dataplane.engine_metrics.signal import Signal

LLAMACPP = AliasTable(
    engine="llama.cpp",
    prefixes=("llamacpp:",),
    aliases=(
        Alias("llamacpp:requests_processing", Signal.RUNNING),
        Alias("llamacpp:requests_deferred", Signal.WAITING),
        Alias("llamacpp:kv_cache_usage_ratio", Signal.KV_USAGE, until="b5420"),
        Alias("llamacpp:kv_cache_tokens", Signal.CONTEXT_TOKENS, until="b5420"),
        Alias("llamacpp:n_decode_total", Signal.STEPS),
        Alias("llamacpp:n_busy_slots_per_decode", Signal.BUSY_SLOTS),
        # Called a counter, and is the most that there ever was.
        Alias("llamacpp:n_tokens_max", Signal.CONTEXT_HIGH_WATER),
        Alias(
            "llamacpp:prompt_tokens_total",
            Signal.PROMPT_TOKENS,
            is_counted_at_end=True,
            is_without_cached=True,
        ),
        Alias(
            "llamacpp:prompt_tokens_cached_total",
            Signal.CACHED_PROMPT_TOKENS,
            is_counted_at_end=True,
        ),
        Alias("llamacpp:prompt_seconds_total", Signal.PROMPT_SECONDS, is_counted_at_end=True),
        Alias("llamacpp:tokens_predicted_total", Signal.GENERATION_TOKENS, is_counted_at_end=True),
        # The first token is not timed.
        Alias(
            "llamacpp:tokens_predicted_seconds_total",
            Signal.GENERATION_SECONDS,
            is_counted_at_end=True,
        ),
        Alias("llamacpp:prompt_tokens_seconds", Signal.PROMPT_RATE, averages=Signal.PROMPT_TOKENS),
        Alias(
            "llamacpp:predicted_tokens_seconds",
            Signal.GENERATION_RATE,
            averages=Signal.GENERATION_TOKENS,
        ),
        Alias("llamacpp:spec_decode_num_drafts_total", Signal.DRAFTS, is_counted_at_end=True),
        Alias(
            "llamacpp:spec_decode_num_draft_tokens_total",
            Signal.DRAFT_TOKENS,
            is_counted_at_end=True,
        ),
        Alias(
            "llamacpp:spec_decode_num_accepted_tokens_total",
            Signal.ACCEPTED_TOKENS,
            is_counted_at_end=True,
        ),
        Alias(
            "llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
            Signal.ACCEPTED_BY_POSITION,
            keep={"position": "position"},
            is_counted_at_end=True,
        ),
    ),
    expected=frozenset(
        {
            Signal.RUNNING,
            Signal.WAITING,
            Signal.STEPS,
            Signal.PROMPT_TOKENS,
            Signal.GENERATION_TOKENS,
        }
    ),
    whole_from=8,
)
