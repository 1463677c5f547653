"""How long a call is: its prompt in tokens, and what room that leaves for the answer.

The prompt is counted with the tokenizer of the deployment that serves it, and the deployment's
length bounds prompt and answer together. It is also hashed here, where replicas are chosen by
what they remember of prompts.
"""

from dataclasses import dataclass

from dataplane.gateway.gateway import Gateway
from dataplane.gateway.openai_api.documents import Document
from dataplane.gateway.openai_api.errors import refuse
from dataplane.gateway.openai_api.sampling import bound_answer, check_vocabulary
from dataplane.gateway.prompts import CountedPrompt, TokenizerError
from dataplane.gateway.receiving import ReadCall, read_for
from dataplane.gateway.registry import InFlightRequest
from dataplane.gateway.routing_requests import hash_prompt
from dataplane.lifecycle import EventKind, Observability
from dataplane.policy import DeploymentPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that was read, checked and counted, all under one snapshot."""

    read: ReadCall
    prompt: CountedPrompt
    max_output_tokens: int
    """Of each answer."""
    prompt_blocks: tuple[bytes, ...] = ()
    """Hashes of its prompt, where its deployment is routed by them."""


async def count(gateway: Gateway, request: InFlightRequest, read: ReadCall) -> Call:
    """The counted call; its request is told. Raises ApiRefusalError for one that is too long."""
    prompt = await _count_prompt(gateway, read)
    _note_prompt(request, prompt)  # also of one whose answer turns out to be too long
    call = await _bound(gateway, read, prompt)
    request.max_output_tokens = call.max_output_tokens
    request.apply(
        EventKind.RECEIVED, num_tokens=prompt.num_tokens, observability=prompt.observability
    )
    return call


async def count_for(gateway: Gateway, read: ReadCall, deployment: DeploymentPolicy) -> Call:
    """The same call for another deployment. Raises ApiRefusalError where that one cannot serve
    it."""
    other = read_for(gateway, read, deployment)
    return await _bound(gateway, other, await _count_prompt(gateway, other))


def note_count(request: InFlightRequest, call: Call) -> None:
    """What was counted of a call belongs to its request's record."""
    request.deployment = call.read.deployment
    request.max_output_tokens = call.max_output_tokens
    _note_prompt(request, call.prompt)


def _note_prompt(request: InFlightRequest, prompt: CountedPrompt) -> None:
    request.num_prompt_tokens = prompt.num_tokens
    request.prompt_tokens_observability = prompt.observability


async def _bound(gateway: Gateway, read: ReadCall, prompt: CountedPrompt) -> Call:
    settings, document, deployment = gateway.settings, read.document, read.deployment
    limit = _limit_output(
        prompt,
        document.output_limit,
        gateway.fleet.max_model_len_of(deployment),
        settings.default_output_tokens,
    )
    router = gateway.fleet.queue_of(deployment.name).router
    return Call(
        read=read,
        prompt=prompt,
        prompt_blocks=await hash_prompt(router, prompt, read.tenant.name),
        max_output_tokens=bound_answer(document, limit, settings.max_answer_values),
    )


async def _count_prompt(gateway: Gateway, read: ReadCall) -> CountedPrompt:
    artifact = read.deployment.tokenizer_artifact
    max_model_len = gateway.fleet.max_model_len_of(read.deployment)
    document: Document = read.document
    try:
        prompt = await gateway.prompts.count(document, artifact, max_model_len)
    except TokenizerError as error:
        raise refuse(str(error), status=503, code="tokenizer_unavailable") from error
    if prompt.num_tokens == 0:
        raise refuse("The prompt is empty.", param="prompt", code="invalid_value")
    check_vocabulary(document, prompt.vocab_size)
    return prompt


def _limit_output(
    prompt: CountedPrompt, wanted: int | None, max_model_len: int | None, default: int
) -> int:
    """How many tokens may be generated. Raises ApiRefusalError when they cannot fit."""
    if max_model_len is None:
        return wanted or default
    if prompt.observability is not Observability.OBSERVED:
        # A guess refuses nobody and fills nothing up: it leaves the endpoint half its length.
        return wanted or min(default, max(1, max_model_len // 2))
    room = max_model_len - prompt.num_tokens
    if room < (wanted or 1):
        raise refuse(
            f"This model's maximum context length is {max_model_len} tokens. However, you "
            f"requested {prompt.num_tokens + (wanted or 1)} tokens ({prompt.num_tokens} in the "
            f"prompt, {wanted or 1} in the completion). Please shorten either.",
            code="context_length_exceeded",
        )
    return wanted or room
