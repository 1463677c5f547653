"""The series of llama.cpp's server, which it exports with --metrics. Source: its
`tools/server/server-task.cpp` and README.

It tells no latencies and no reuse: `timings` of each answer do."""

from dataplane.engine_metrics import signals
from dataplane.engine_metrics.prefixed import Prefixed
from dataplane.engine_metrics.series import EngineVocabulary, Unit

_of = Prefixed("llamacpp:")
_SCRAPE_TRAP = "an average since the last scrape, whoever scraped: useless to two readers"

LLAMACPP = EngineVocabulary(
    engine="llamacpp",
    prefix="llamacpp:",
    series=(
        _of.gauge(signals.RUNNING, "requests_processing", Unit.REQUESTS),
        _of.gauge(signals.WAITING, "requests_deferred", Unit.REQUESTS),
        _of.gauge(signals.KV_USED_RATIO, "kv_cache_usage_ratio", Unit.RATIO, until="b5420"),
        _of.gauge(signals.KV_USED_TOKENS, "kv_cache_tokens", Unit.TOKENS, until="b5420"),
        _of.counter(signals.STEPS, "n_decode", Unit.STEPS),
        _of.gauge(signals.BUSY_SLOTS, "n_busy_slots_per_decode", Unit.REQUESTS),
        _of.gauge(
            signals.CONTEXT_HIGH_WATER,
            "n_tokens_max",
            Unit.TOKENS,
            trap="called a counter, and is the most that there ever was",
        ),
        _of.counter(signals.PROMPT_TOKENS, "prompt_tokens", Unit.TOKENS),
        _of.counter(signals.PROMPT_TOKENS_CACHED, "prompt_tokens_cached", Unit.TOKENS),
        _of.counter(signals.PROMPT_SECONDS, "prompt_seconds", Unit.SECONDS),
        _of.counter(signals.GENERATION_TOKENS, "tokens_predicted", Unit.TOKENS),
        _of.counter(
            signals.GENERATION_SECONDS,
            "tokens_predicted_seconds",
            Unit.SECONDS,
            trap="the first token is not timed",
        ),
        _of.gauge(
            signals.PROMPT_RATE,
            "prompt_tokens_seconds",
            Unit.TOKENS_PER_SECOND,
            trap=_SCRAPE_TRAP,
        ),
        _of.gauge(
            signals.GENERATION_RATE,
            "predicted_tokens_seconds",
            Unit.TOKENS_PER_SECOND,
            trap=_SCRAPE_TRAP,
        ),
        _of.counter(signals.SPEC_DRAFTS, "spec_decode_num_drafts", Unit.STEPS),
        _of.counter(signals.SPEC_DRAFTED_TOKENS, "spec_decode_num_draft_tokens", Unit.TOKENS),
        _of.counter(signals.SPEC_ACCEPTED_TOKENS, "spec_decode_num_accepted_tokens", Unit.TOKENS),
        _of.counter(
            signals.SPEC_ACCEPTED_BY_POSITION,
            "spec_decode_num_accepted_tokens_per_pos",
            Unit.TOKENS,
            by="position",
        ),
    ),
)
