"""Counting prompts with the model's own tokenizer and template, long ones off the event loop.

Tokenizers are loaded once per file, in a thread, the first time a snapshot names them. The
cheap limit comes first: a text that is too long by its characters is never tokenized.
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from dataplane.gateway.openai_api.documents import ChatDocument, CompletionDocument, Document
from dataplane.gateway.openai_api.errors import ApiRefusalError, refuse
from dataplane.lifecycle import Observability
from dataplane.tokenizer import Message, TemplateError, Tokenizer
from dataplane.tokenizer_loading import load_tokenizer

# Where nobody knows the tokenizer: English text in common vocabularies, about four bytes each.
BYTES_PER_TOKEN = 4
_NUM_THREADS = 2
_MAX_CHARS_ON_LOOP = 1024
"""Of a prompt that is counted at once: a fifth of a millisecond."""
_MAX_TURNS_ON_LOOP = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedPrompt:
    """A prompt as an engine will see it."""

    num_tokens: int
    observability: Observability
    token_ids: tuple[int, ...] = ()
    """Empty where the tokenizer is not known."""
    vocab_size: int | None = None
    """Token ids are below; None where the tokenizer is not known."""


class TokenizerError(Exception):
    """The tokenizer of a deployment cannot be loaded; the message says why."""


class PromptCounter:
    """Tokenizers by path of their file, and the threads that use them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="tokenize")
        self._tokenizers: dict[str, asyncio.Future[Tokenizer]] = {}

    def preload(self, artifacts: Iterable[str]) -> None:
        """Begin to load what is not loaded yet, and forget what is no longer named."""
        wanted = set(artifacts)
        for artifact in self._tokenizers.keys() - wanted:
            del self._tokenizers[artifact]
        for artifact in wanted:
            self._load(artifact)

    async def loaded(self, timeout_seconds: float) -> None:
        """Wait for what is being loaded, with success or not, but not for longer than that."""
        if self._tokenizers:
            await asyncio.wait(self._tokenizers.values(), timeout=timeout_seconds)

    async def count(
        self,
        document: Document,
        artifact: str | None,
        max_model_len: int | None,
        is_needed: bool = True,
    ) -> CountedPrompt:
        """Tokenize the prompt of `document`. A tokenizer that is not needed, since its engine has
        its own, is not tried again once it could not be loaded.

        Raises ApiRefusalError when it is too long by its characters alone, or does not fit
        the template, and TokenizerError when the tokenizer cannot be had.
        """
        if artifact is None:
            return estimate(document)
        tokenizer = await self._get(artifact, is_needed)
        num_chars = _num_chars(document)
        if max_model_len is not None and num_chars > max_model_len * tokenizer.max_chars_per_token:
            raise refuse(
                f"This model's maximum context length is {max_model_len} tokens, and the prompt "
                f"of {num_chars} characters cannot fit. Please shorten it.",
                param=_prompt_field(document),
                code="context_length_exceeded",
            )
        if _is_short(document, num_chars):
            ids = _encode(tokenizer, document)
        else:
            loop = asyncio.get_running_loop()
            ids = await loop.run_in_executor(self._threads, _encode, tokenizer, document)
        return CountedPrompt(
            num_tokens=len(ids),
            observability=Observability.OBSERVED,
            token_ids=tuple(ids),
            vocab_size=tokenizer.vocab_size,
        )

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def _get(self, artifact: str, is_needed: bool) -> Tokenizer:
        try:
            return await asyncio.shield(self._load(artifact))
        except (OSError, ValueError) as error:
            if is_needed:
                self._tokenizers.pop(artifact, None)  # the next request tries again
            raise TokenizerError(
                f"the tokenizer in {artifact} cannot be loaded: {error}"
            ) from error

    def _load(self, artifact: str) -> "asyncio.Future[Tokenizer]":
        loading = self._tokenizers.get(artifact)
        if loading is None:
            loop = asyncio.get_running_loop()
            loading = loop.run_in_executor(self._threads, load_tokenizer, Path(artifact))
            # An error is told to the request that needs it; asyncio need not tell it again.
            loading.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._tokenizers[artifact] = loading
        return loading


def prompt_text(document: Document) -> str:
    """What the caller wrote, for tenants that opted in to recording."""
    if isinstance(document, ChatDocument):
        return "\n".join(f"{message.role}: {message.text}" for message in document.messages)
    return document.text if document.text is not None else str(list(document.token_ids))


def _prompt_field(document: Document) -> str:
    return "messages" if isinstance(document, ChatDocument) else "prompt"


def _num_chars(document: Document) -> int:
    if isinstance(document, ChatDocument):
        return sum(len(message.text) for message in document.messages)
    return len(document.text or "")


def _is_short(document: Document, num_chars: int) -> bool:
    """So little work that a thread would take longer, and keep the event loop from its turn."""
    if isinstance(document, ChatDocument):
        return num_chars <= _MAX_CHARS_ON_LOOP and len(document.messages) <= _MAX_TURNS_ON_LOOP
    return max(num_chars, len(document.prompt)) <= _MAX_CHARS_ON_LOOP


def estimate(document: Document) -> CountedPrompt:
    """A guess, where nobody here has the tokenizer."""
    if isinstance(document, CompletionDocument) and document.token_ids:
        num_tokens = len(document.token_ids)
    else:
        num_tokens = -(-len(prompt_text(document).encode(errors="replace")) // BYTES_PER_TOKEN)
    return CountedPrompt(num_tokens=num_tokens, observability=Observability.INFERRED)


def _encode(tokenizer: Tokenizer, document: Document) -> list[int]:
    """Runs in a thread where the prompt is long."""
    if isinstance(document, ChatDocument):
        try:
            return tokenizer.encode_chat(_messages(document))
        except TemplateError as error:
            raise _unfit(f"The messages do not fit the model's template: {error}") from error
    if document.text is not None:
        return tokenizer.encode_prompt(document.text)
    ids = list(document.token_ids)
    if any(token_id >= tokenizer.vocab_size for token_id in ids):
        raise refuse(
            f"'prompt' holds a token id outside 0..{tokenizer.vocab_size - 1}.",
            param="prompt",
            code="invalid_value",
        )
    return ids


def _unfit(message: str) -> ApiRefusalError:
    return refuse(message, param="messages", code="invalid_value")


def _messages(document: ChatDocument) -> list[Message]:
    # "developer" is OpenAI's newer word for the system's turn; templates know the old one.
    return [
        {
            "role": "system" if message.role == "developer" else message.role,
            "content": message.text,
        }
        for message in document.messages
    ]
