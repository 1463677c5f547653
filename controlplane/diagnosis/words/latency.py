"""Times that users feel, and what they are held to."""

FIRST_TOKEN = r"\bttft\b|first token"
FIRST_TOKEN_OR_PREFILL = rf"{FIRST_TOKEN}|prefill|prompt eval"
BETWEEN_TOKENS = r"\b(itl|tpot|inter token|tbt)\b"
OBJECTIVE = r"\b(objective|slo|sla|target)\b"
