"""What is wrong with a request by itself, whatever engine runs it."""

from dataplane.engine import EngineRequest


def find_problem(request: EngineRequest, vocab_size: int) -> str | None:
    """What an engine of `vocab_size` tokens cannot begin with, and the remedy; None when fine."""
    sampling = request.sampling
    if not request.prompt_token_ids:
        return "the prompt is empty; at least one token is needed"
    for name in ("max_output_tokens", "num_sequences"):
        if getattr(sampling, name) < 1:
            return f"{name} is {getattr(sampling, name)}; ask for at least 1"
    named = (*request.prompt_token_ids, *(token_id for token_id, _ in sampling.logit_bias))
    unknown = [token_id for token_id in named if not 0 <= token_id < vocab_size]
    if unknown:
        return (
            f"token id {unknown[0]} is outside the model's vocabulary of {vocab_size}; "
            f"take ids from this model's own tokenizer"
        )
    return None
