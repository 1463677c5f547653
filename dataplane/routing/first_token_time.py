"""How long a first token takes once its request has a slot, as it was measured.

A promise of a first token is spent on two things, the wait for a slot and the prompt's computing.
The second is learned from the first tokens that came, as a line over the prompts' lengths with the
mean deviation from it; of what is left of the promise a request may wait. So who has a long
prompt may wait for less, and nobody has to take a guess off the promise beforehand::

    seconds |          . /        longest wait = promise - (line at its prompt + LATE x deviation)
            |      . / .
            |  . / .
            +------------- prompt tokens

One replica that hangs, or compiles something, says nothing of what the others take. So a first
token that takes much longer than nearly all counts as if it took OUTLIER times as long as those.
Where all get slower at once, what nearly all take rises with each, and so does that bound: some
forty tell of thirty times.
"""

import msgspec

_NEWEST_SHARE = 0.02
"""Of the newest first token, once there are as many as that makes."""
LATE = 2.0
"""Mean deviations above the line that must be in time: some nineteen of twenty."""
MIN_FIRST_TOKENS = 8
"""Fewer say nothing."""
OUTLIER = 3.0
"""Times as long as nearly all take is the most that one first token counts."""
_LEAST_OUTLIER_SECONDS = 0.1
"""Below, none counts as one."""


_LEAST_WAIT = 0.05
"""Of a promise: who could only just break it may still take a slot that is free, or would never
show that it got faster."""


def longest_wait(promise_seconds: float, seconds_from_slot: float) -> float:
    """For a slot, so that a first token that takes so long from there comes in time."""
    return max(_LEAST_WAIT * promise_seconds, promise_seconds - seconds_from_slot)


class FirstTokenReading(msgspec.Struct, frozen=True):
    """Seconds from the slot, in which nearly all come."""

    of_this: float
    """Of a prompt as long as the one that is decided on."""
    usual: float
    """Of one as long as prompts are in the mean."""


class FirstTokenTime:
    """Of one deployment. Learns in constant time and space."""

    def __init__(self) -> None:
        self._first: list[tuple[float, int]] = []
        """Seconds and prompt tokens, until they are enough to say which of them is an outlier."""
        self._number = 0
        self._mean_tokens = 0.0
        self._mean_seconds = 0.0
        self._variance = 0.0
        self._covariance = 0.0
        self._deviation = 0.0

    def note(self, num_prompt_tokens: int, seconds: float) -> None:
        """A first token came so long after the slot."""
        if self._number:
            self._learn(num_prompt_tokens, min(seconds, self._most_at(num_prompt_tokens)))
            return
        self._first.append((seconds, num_prompt_tokens))
        if len(self._first) == MIN_FIRST_TOKENS:
            self._learn_first()

    def _learn_first(self) -> None:
        """The quickest first: they say what an outlier is."""
        (fastest, num_tokens), *others = sorted(self._first)
        self._first.clear()
        self._learn(num_tokens, fastest)
        for seconds, num_tokens in others:
            self.note(num_tokens, seconds)

    def _learn(self, num_prompt_tokens: int, seconds: float) -> None:
        self._number += 1
        newest = max(_NEWEST_SHARE, 1 / self._number)
        off = abs(seconds - self._line_at(num_prompt_tokens))
        more_tokens = num_prompt_tokens - self._mean_tokens
        more_seconds = seconds - self._mean_seconds
        self._mean_tokens += newest * more_tokens
        self._mean_seconds += newest * more_seconds
        kept = 1 - newest
        self._variance = kept * (self._variance + newest * more_tokens**2)
        self._covariance = kept * (self._covariance + newest * more_tokens * more_seconds)
        if self._number > 1:  # the first is off from nothing
            self._deviation += newest * (off - self._deviation)

    def read(self, num_prompt_tokens: int) -> FirstTokenReading | None:
        """For a prompt of so many tokens; None: nobody can tell yet."""
        if not self._number:
            return None
        late = LATE * self._deviation
        return FirstTokenReading(
            of_this=max(0.0, self._line_at(num_prompt_tokens) + late),
            usual=self._mean_seconds + late,
        )

    def _most_at(self, num_prompt_tokens: int) -> float:
        """Seconds; longer ones are outliers."""
        nearly_all = self._line_at(num_prompt_tokens) + LATE * self._deviation
        return max(_LEAST_OUTLIER_SECONDS, OUTLIER * nearly_all)

    def _line_at(self, num_prompt_tokens: float) -> float:
        """A longer prompt never takes less."""
        slope = max(0.0, self._covariance / self._variance) if self._variance > 0 else 0.0
        return self._mean_seconds + slope * (num_prompt_tokens - self._mean_tokens)
