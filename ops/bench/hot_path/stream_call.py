"""One request of the load client, and what became of it."""

from dataclasses import dataclass, field
from enum import StrEnum


class End(StrEnum):
    """How an answer ended, as its client saw it."""

    WHOLE = "whole"
    """A stream with its end mark, or an answer that is no stream."""
    CUT = "cut"
    """A stream without its end mark, or a connection that closed before."""
    NONE = "none"
    """Nothing, as long as the client waited."""


@dataclass(slots=True, eq=False)
class StreamCall:
    """Times are seconds on this machine's monotonic clock, which all processes share."""

    number: int
    payload: bytes
    """The whole request, head and body."""
    scheduled_at: float
    kind: str = ""
    """For whoever tells calls of one run apart."""
    sent_at: float | None = None
    """When the kernel was handed the first byte."""
    body_sent_at: float | None = None
    """When the kernel had taken the last one."""
    first_byte_at: float | None = None
    first_chunk_at: float | None = None
    """When the first text was there: a head alone is no answer."""
    ended_at: float | None = None
    status: int | None = None
    num_chunks: int = 0
    end: End = End.NONE
    headers: dict[str, str] = field(default_factory=dict)
    """Of an answer that is no stream, in lower case; empty of a stream."""
    body: bytes = b""
    """Of an answer that is no stream."""

    @property
    def is_refused(self) -> bool:
        """It was answered with an error."""
        return self.status is not None and self.status >= 400

    def send_delay(self) -> float | None:
        """Seconds that it was sent after its time."""
        return None if self.sent_at is None else self.sent_at - self.scheduled_at

    def first_byte_seconds(self) -> float | None:
        """From the request's last byte to the answer's first."""
        if self.first_byte_at is None or self.body_sent_at is None:
            return None
        return self.first_byte_at - self.body_sent_at

    def first_chunk_seconds(self) -> float | None:
        """From the request's last byte to the first text."""
        if self.first_chunk_at is None or self.body_sent_at is None:
            return None
        return self.first_chunk_at - self.body_sent_at

    def answer_seconds(self) -> float | None:
        """From the request's last byte to the answer's last."""
        if self.ended_at is None or self.body_sent_at is None:
            return None
        return self.ended_at - self.body_sent_at
