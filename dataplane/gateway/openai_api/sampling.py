"""From a request document to what an engine is asked to do."""

from collections.abc import Mapping

from dataplane.engine import SamplingParams
from dataplane.gateway.openai_api.documents import CompletionDocument, Document
from dataplane.gateway.openai_api.errors import refuse


def sampling_of(document: Document, max_output_tokens: int) -> SamplingParams:
    """The document's sampling parameters, with the limit that was settled for it."""
    top_k, seed = document.top_k, document.seed
    return SamplingParams(
        max_output_tokens=max_output_tokens,
        temperature=_or(document.temperature, 1.0),
        top_p=_or(document.top_p, 1.0),
        top_k=None if top_k is None or top_k < 1 else top_k,
        seed=seed,
        stop=document.stop_strings,
        ignore_eos=bool(document.ignore_eos),
        num_sequences=document.num_choices,
        min_output_tokens=min(document.min_tokens or 0, max_output_tokens),
        presence_penalty=_or(document.presence_penalty, 0.0),
        frequency_penalty=_or(document.frequency_penalty, 0.0),
        repetition_penalty=_or(document.repetition_penalty, 1.0),
        logit_bias=tuple(_bias(document.logit_bias or {})),
        num_logprobs=document.num_logprobs,
    )


def check_choices(document: Document, max_choices: int, max_active: int | None) -> None:
    """Raises ApiRefusalError when more answers are asked for than the gateway gives, or than the
    policy lets one replica run at once (None: as many as it can)."""
    if document.num_choices > max_choices:
        raise refuse(
            f"'n' is {document.num_choices}; at most {max_choices} answers to one prompt are "
            f"given. Send several requests instead.",
            param="n",
            code="invalid_value",
        )
    if max_active is not None and document.num_choices > max_active:
        raise refuse(
            f"'n' is {document.num_choices}; this deployment's policy lets a replica run at most "
            f"{max_active} answers at once. Send several requests instead.",
            param="n",
            code="invalid_value",
        )


def bound_answer(document: Document, limit: int, max_values: int) -> int:
    """The output limit of each answer, so that all answers together stay within `max_values`.

    `limit` is what was settled before. Lower where the caller left it to the gateway; raises
    ApiRefusalError where the caller asked for more.
    """
    values_per_token = document.num_choices * (1 + (document.num_logprobs or 0))
    most = max_values // values_per_token
    if limit <= most:
        return limit
    if document.output_limit is None and most:
        return most
    name = "logprobs" if isinstance(document, CompletionDocument) else "top_logprobs"
    raise refuse(
        f"The answers would be too large: 'n' ({document.num_choices}) x 'max_tokens' ({limit}) x "
        f"(1 + '{name}' ({document.num_logprobs or 0})) is {values_per_token * limit}; at most "
        f"{max_values} tokens and alternatives are given to one request. Lower one of them.",
        param="max_tokens",
        code="answer_too_large",
    )


def check_vocabulary(document: Document, vocab_size: int | None) -> None:
    """Raises ApiRefusalError when a bias is on no token of the model.

    `vocab_size` is None where the tokenizer is not known; the endpoint judges then.
    """
    if vocab_size is None:
        return
    for token_id, _ in _bias(document.logit_bias or {}):
        if token_id >= vocab_size:
            raise refuse(
                f"'logit_bias' names token {token_id}; the model has tokens 0 to {vocab_size - 1}.",
                param="logit_bias",
                code="invalid_value",
            )


def _bias(bias: Mapping[str, float]) -> list[tuple[int, float]]:
    return [(int(token_id), value) for token_id, value in bias.items()]


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
