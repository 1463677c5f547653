"""Tokens by time."""

TOKENS_A_SECOND = r"(tokens|tok) per s|throughput|tokens? rate|tps\b"
PREFILL_A_SECOND = r"prefill.*per s|prompt.*per s"
OF_PROMPTS = r"prompt|prefill|ttft"
"""A speed that is none of answers."""
