"""How long a call is: its prompt in tokens, and what room that leaves for the answer.

The prompt is counted with the tokenizer of the deployment that serves it, and the deployment's
length bounds prompt and answer together. Where the gateway has no tokenizer the prompt is guessed,
and its engine is asked only where the guess could decide something: who surely fits need not wait
for an exact number, which the engine tells at the end anyway. A prompt is also hashed here, where
replicas are chosen by what they remember of prompts.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from dataplane.engine import EngineUnavailableError
from dataplane.gateway.gateway import Gateway
from dataplane.gateway.openai_api.documents import Document
from dataplane.gateway.openai_api.errors import refuse
from dataplane.gateway.openai_api.sampling import bound_answer, check_vocabulary
from dataplane.gateway.prompts import (
    BYTES_PER_TOKEN,
    CountedPrompt,
    TokenizerError,
    estimate,
)
from dataplane.gateway.receiving import ReadCall, read_for
from dataplane.gateway.registry import InFlightRequest
from dataplane.gateway.routing_requests import hash_prompt
from dataplane.lifecycle import EventKind, Observability
from dataplane.policy import DeploymentPolicy

_COUNT_SECONDS = 2.0
_TEMPLATE_TOKENS = 64
"""That a model's template puts around all messages, its own system's turn among them."""
_TURN_TOKENS = 16
"""That it puts around each."""

_log = structlog.get_logger(__name__)


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
    router = gateway.fleet.queue_of(deployment.lane).router
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
    is_needed = gateway.fleet.needs_token_ids(read.deployment)
    try:
        prompt = await gateway.prompts.count(document, artifact, max_model_len, is_needed)
    except TokenizerError as error:
        if is_needed:
            raise refuse(str(error), status=503, code="tokenizer_unavailable") from error
        prompt = estimate(document)
    if max_model_len is not None and may_not_fit(
        prompt, document, read.body, max_model_len, gateway.settings.default_output_tokens
    ):
        prompt = await _count_by_engine(gateway, read, prompt)
    if prompt.num_tokens == 0:
        raise refuse("The prompt is empty.", param="prompt", code="invalid_value")
    check_vocabulary(document, prompt.vocab_size)
    return prompt


async def _count_by_engine(
    gateway: Gateway, read: ReadCall, guessed: CountedPrompt
) -> CountedPrompt:
    """By a replica's own tokenizer; the guess, where none offers one or it does not answer."""
    counter = gateway.fleet.find_prompt_counter(read.deployment)
    if counter is None:
        return guessed
    try:
        async with asyncio.timeout(_COUNT_SECONDS):
            num_tokens = await counter.count_prompt(read.body)
    except (TimeoutError, EngineUnavailableError) as error:
        _log.warning("a prompt was guessed", deployment=read.deployment.name, why=str(error))
        return guessed
    if num_tokens is None:
        return guessed
    return CountedPrompt(num_tokens=num_tokens, observability=Observability.OBSERVED)


def may_not_fit(
    guessed: CountedPrompt,
    document: Document,
    body: Mapping[str, Any],
    max_model_len: int,
    default_output: int,
) -> bool:
    """Whether a guessed prompt, and the answer that is asked for, could be too long together: no
    tokenizer finds more tokens than there are bytes, but for those of the template."""
    if guessed.observability is Observability.OBSERVED:
        return False
    turns = body.get("messages")
    num_turns = len(turns) if isinstance(turns, list) else 0
    tools = len(msgspec.json.encode(body["tools"])) if body.get("tools") else 0
    template = _TEMPLATE_TOKENS + _TURN_TOKENS * num_turns
    most = guessed.num_tokens * BYTES_PER_TOKEN + tools + template
    wanted = document.output_limit or min(default_output, max(1, max_model_len // 2))
    return most + wanted > max_model_len


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
