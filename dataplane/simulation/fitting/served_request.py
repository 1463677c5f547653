"""One request of an engine that shows no step: what is known of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRequest:
    """It was answered whole. Times are in seconds on one clock."""

    server: str
    """Whose steps it was in: what one server did says nothing of another."""
    scheduled_at: float
    first_token_at: float
    last_token_at: float
    num_prompt_tokens: int
    num_output_tokens: int
