"""What an engine is given at most."""

CONTEXT_LIMIT = r"max model len|max (context|seq|sequence) (len|length)"
PREFILL_CHUNK = (
    r"max (num )?batched tokens|chunk(ed)? (prefill )?size|prefill chunk|(^| )n ?u?batch$"
)
BLOCK_SIZE = r"(block|page) size"
DEVICE_MEMORY = r"\b(gpu|device|card|vram|hbm)\b.*\b(total|size|capacity)\b"
