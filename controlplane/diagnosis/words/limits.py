"""What an engine is given at most."""

CONTEXT_LIMIT = r"max model len|max (context|seq|sequence) (len|length)"
PREFILL_CHUNK = (
    r"max (num )?batched tokens|chunk(ed)? (prefill )?size|prefill chunk|(^| )n ?u?batch$"
)
BLOCK_SIZE = r"(block|page) size"
SLOT_POOL = r"^(n )?(ctx|context)( size| tokens)?$|kv (pool )?tokens"
"""Of llama.cpp: what all of its slots share."""
DEVICE_MEMORY = r"\b(gpu|device|card|vram|hbm)\b.*\b(total|size|capacity)\b"
