"""llama.cpp's server. It tells no latencies, no reuse, and in current versions no KV usage."""

from dataplane.engine_metrics import signals
from dataplane.engine_metrics.alias import AliasTable
from dataplane.engine_metrics.llamacpp import LLAMACPP as VOCABULARY
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables.meaning import SHARED, aliases_of, plain

_OWN = (
    plain(signals.GENERATION_TOKENS, Signal.GENERATION_TOKENS),
    plain(signals.PROMPT_TOKENS_CACHED, Signal.CACHED_PROMPT_TOKENS),
)

LLAMACPP = AliasTable(
    engine="llama.cpp",
    prefixes=(VOCABULARY.prefix,),
    aliases=aliases_of(VOCABULARY, (*SHARED, *_OWN)),
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
