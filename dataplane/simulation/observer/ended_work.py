"""What an engine has counted that counts nothing of a prompt before it is read, and nothing of an
answer before it ends: llama.cpp's server.

prompt tokens   0    0   863  863  863  863     at once, when the first token is selected
output tokens   0    0     0    0    0   30     at once, when the answer ends or is cancelled
"""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class EndedWork:
    """Up to now, of one process. Seconds are of each request by itself: those of two at once add
    up."""

    num_prompt_tokens: int = 0
    """Computed: without those that were found in the cache."""
    prompt_seconds: float = 0.0
    num_output_tokens: int = 0
    output_seconds: float = 0.0
    """From the first token on."""
    num_decode_steps: int = 0
    """Output tokens behind the first one."""

    def read(self, num_tokens: int, seconds: float) -> None:
        """A prompt was computed, as far as the cache had not spared it."""
        self.num_prompt_tokens += num_tokens
        self.prompt_seconds += seconds

    def answered(self, num_tokens: int, num_decode_steps: int, seconds: float) -> None:
        """An answer ended, all of it or cut short."""
        self.num_output_tokens += num_tokens
        self.num_decode_steps += num_decode_steps
        self.output_seconds += seconds

    def since(self, before: "EndedWork") -> "EndedWork":
        """What came on top of it."""
        return EndedWork(
            num_prompt_tokens=self.num_prompt_tokens - before.num_prompt_tokens,
            prompt_seconds=self.prompt_seconds - before.prompt_seconds,
            num_output_tokens=self.num_output_tokens - before.num_output_tokens,
            output_seconds=self.output_seconds - before.output_seconds,
            num_decode_steps=self.num_decode_steps - before.num_decode_steps,
        )
