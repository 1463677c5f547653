"""What vLLM answers where it does not answer. Pure."""

from dataclasses import replace

from dataplane.openai_endpoint.refusal import (
    CONTEXT_LENGTH_EXCEEDED,
    Refusal,
    error_message,
    error_of,
    read_plain_refusal,
)

_TOO_LONG = ("maximum context length", "maximum model length", "longer than the maximum model")
"""In its messages of every version that was looked at; the error's type is that of any other."""
_RETRYABLE = "ServiceUnavailableError"


def read_refusal(status: int, body: object) -> Refusal:
    """Its queue limits answer 503, and an error that it calls retryable is one too."""
    refusal = read_plain_refusal(status, body)
    message = error_message(body).lower()
    if status == 400 and any(words in message for words in _TOO_LONG):
        return replace(refusal, code=CONTEXT_LENGTH_EXCEEDED)
    if error_of(body).get("type") == _RETRYABLE:
        return replace(refusal, status_code=503)
    return refusal
