"""How clients behave: how long they wait, how fast they read, and whether they come again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Coming again after a refusal or a failure, with growing pauses."""

    max_retries: int
    backoff: float
    """Seconds before the first one; 0: at once."""
    factor: float = 2.0
    jitter: float = 0.0
    """Share of the pause that is drawn evenly around it, 0 to 1."""
    longest: float = 60.0
    heeds_retry_after: bool = False
    """Waits at least as long as the answer asks for."""
    when_impatient: bool = False
    """Also after it left because it took too long."""

    def pause(self, number: int, retry_after: float | None, drawn: float) -> float | None:
        """Seconds before retry `number` (from 0); None when it gives up. `drawn` is in [0, 1)."""
        if number >= self.max_retries:
            return None
        pause = min(self.longest, self.backoff * self.factor**number)
        pause *= 1 + self.jitter * (2 * drawn - 1)
        if self.heeds_retry_after and retry_after is not None:
            pause = max(pause, retry_after)
        return pause


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A client that takes its answer slowly."""

    tokens_per_second: float
    stops_after: int | None = None
    """Tokens after which it reads nothing more, and stays connected."""
    buffered_tokens: int = 64
    """What the connection holds that was not read: a small send buffer of 16 KiB."""

    def room_at(self, seconds: float) -> float:
        """Tokens that the kernel has taken at most, so long after the first were written."""
        read = self.tokens_per_second * seconds
        if self.stops_after is not None:
            read = min(read, self.stops_after)
        return read + self.buffered_tokens

    def seconds_until(self, num_tokens: int) -> float | None:
        """When the kernel has taken so many, counted from the first write; None: never."""
        must_read = num_tokens - self.buffered_tokens
        if must_read <= 0:
            return 0.0
        if self.stops_after is not None and must_read > self.stops_after:
            return None
        return must_read / self.tokens_per_second

    @property
    def last_read_at(self) -> float:
        """Seconds from the first write until one that stops reads nothing more."""
        return (self.stops_after or 0) / self.tokens_per_second


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBehaviour:
    """One kind of client."""

    name: str = "patient"
    first_token_within: float | None = None
    """Seconds after which it leaves when it has seen nothing; None: it waits for ever."""
    answer_within: float | None = None
    """Seconds after which it leaves, whatever it has seen."""
    reading: Reading | None = None
    """None: it reads as fast as it is written."""
    retries: Retries | None = None


PATIENT = ClientBehaviour()
