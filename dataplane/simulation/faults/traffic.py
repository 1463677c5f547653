"""Faults of what is asked for: longer answers, longer prompts, clusters, floods, new prefixes."""

import math
from dataclasses import dataclass

from dataplane.simulation.call import Call
from dataplane.simulation.faults.calls import CallFault, FreshTokens


@dataclass(frozen=True, slots=True, kw_only=True)
class LongerOutputs(CallFault):
    """Answers are 1 + intensity times as long, and so is what callers allow."""

    def change(self, call: Call, name: str, tokens: FreshTokens) -> None:
        """Lengthen the answer, and each of the further ones."""
        call.answer = self._longer(call.answer)
        call.further_answers = tuple(map(self._longer, call.further_answers))
        if call.max_tokens is not None:
            call.max_tokens = round(call.max_tokens * (1 + self.intensity))

    def _longer(self, answer: range) -> range:
        return range(answer.start, answer.start + round(len(answer) * (1 + self.intensity)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPrompts(CallFault):
    """Prompts are intensity times `added_tokens` tokens longer."""

    added_tokens: int = 8000

    def change(self, call: Call, name: str, tokens: FreshTokens) -> None:
        """Lengthen the prompt behind what it shares."""
        num_added = round(self.added_tokens * self.intensity)
        if num_added:
            call.prompt = tokens.longer(call.prompt, num_added)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixChange(CallFault):
    """The share `intensity` of prompts begin with something of their own: a date, an id, another
    template. What they had in common no longer matches."""

    def change(self, call: Call, name: str, tokens: FreshTokens) -> None:
        """Change the first token. The prompt stays as long as it was."""
        if self.hits(name):
            call.prompt = tokens.begun_anew(call.prompt)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredArrivals(CallFault):
    """Calls of each `period` come closer to its end, at intensity 1 all at once. As many come."""

    period: float = 10.0
    """Seconds."""

    def delay(self, at: float) -> float:
        """Towards the end of its period."""
        end = (math.floor(at / self.period) + 1) * self.period
        return max(0.0, min(1.0, self.intensity) * (min(end, self.ends_at) - at))


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFlood(CallFault):
    """The tenants call 1 + intensity times as often. Each further call is of the kind of one that
    comes anyway: as long, with the beginning that it shares with calls before it, and with as many
    turns behind it, which are not multiplied once more."""

    def num_copies(self, name: str) -> int:
        """The whole part, and one more as often as the rest says."""
        whole = math.floor(self.intensity)
        return whole + (self.draw("copies", name) < self.intensity - whole)
