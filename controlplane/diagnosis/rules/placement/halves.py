"""Fleets whose replicas compute prompts or decode: what is short, the link or one of the halves."""

from collections.abc import Callable
from dataclasses import dataclass

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.fleet import Fleet, Replica, fleet_of, grown, mean_of
from controlplane.diagnosis.views.token_work import is_seen_by_ends, stretch_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_RECENT_SECONDS = 40.0
_FEW_TOKENS = 0.05
"""Output for each prompt token: whoever computes prompts alone selects the first token of each."""
_FULL_SHARE = 0.9
_IDLE_SHARE = 0.5
_LEAST_BETWEEN = 5.0

_Holds = Callable[[Replica, float, float], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """Who does what, of late."""

    fleet: Fleet
    prefill: tuple[Replica, ...]
    decode: tuple[Replica, ...]
    start: float

    @property
    def between(self) -> float:
        """Requests between the two halves: told, or what is in flight and at no replica."""
        told = self.fleet.gateway(Signal.DECODE_QUEUE)
        if told is not None:
            return mean_of(told, self.start, self.fleet.window.end) or 0.0
        sent = self.fleet.gateway(Signal.GATEWAY_IN_FLIGHT)
        if sent is None:
            return 0.0
        queued = self.fleet.gateway(Signal.GATEWAY_QUEUED)
        known = sum(
            mean_of(each.find(signal), self.start, self.fleet.window.end) or 0.0
            for each in self.fleet.replicas
            for signal in (Signal.RUNNING, Signal.WAITING)
        )
        flying = mean_of(sent, self.start, self.fleet.window.end) or 0.0
        waiting = mean_of(queued, self.start, self.fleet.window.end) or 0.0
        return max(0.0, flying - known - waiting)

    @property
    def is_decode_full(self) -> bool:
        """The batch of those that decode stands at its limit, or requests wait there."""
        return self._share(_is_full) >= _FULL_SHARE

    @property
    def is_decode_idle(self) -> bool:
        """They have less to do than they did at their best."""
        return self._share(_is_idle) >= _FULL_SHARE

    def _share(self, holds: _Holds) -> float:
        end = self.fleet.window.end
        found = [holds(each, self.start, end) for each in self.decode]
        return sum(found) / len(found) if found else 0.0

    def cite(self, argument: Argument) -> None:
        """What each half does, and what is between them."""
        end = self.fleet.window.end
        for what, half in (("compute prompts", self.prefill), ("decode", self.decode)):
            running = sum(mean_of(e.find(Signal.RUNNING), self.start, end) or 0.0 for e in half)
            names = ", ".join(each.name for each in half)
            argument.says(f"{names} {what}: {number(running)} running on average")
            usage = [
                value
                for each in half
                if (value := mean_of(each.find(Signal.KV_USAGE), self.start, end)) is not None
            ]
            if usage:
                argument.says(f"KV usage of those that {what}: {max(usage):.2f} at most on average")
        argument.series(self.fleet.gateway(Signal.DECODE_QUEUE), "between the two")
        argument.series(self.fleet.gateway(Signal.GATEWAY_IN_FLIGHT))


def halves_of(window: Window) -> Halves | None:
    """None where replicas do both."""
    fleet = fleet_of(window)
    if fleet is None:
        return None
    start = max(window.start, window.end - _RECENT_SECONDS)
    prefill, decode = [], []
    for each in fleet.replicas:
        prompts = _prompts(each, start, window.end)
        tokens = _least_tokens(each, window, start)
        if tokens is None:
            return None
        if prompts > 0 and tokens <= _FEW_TOKENS * prompts:
            prefill.append(each)
        elif tokens > 0 and prompts <= _FEW_TOKENS * tokens:
            decode.append(each)
    if not prefill or not decode or len(prefill) + len(decode) < len(fleet.replicas):
        return None
    return Halves(fleet=fleet, prefill=tuple(prefill), decode=tuple(decode), start=start)


def has_many_between(halves: Halves) -> bool:
    """More requests than pass through in a moment."""
    return halves.between >= max(_LEAST_BETWEEN, len(halves.decode))


def _least_tokens(replica: Replica, window: Window, start: float) -> float | None:
    """Where they are counted when an answer ends, those of answers that are still written show in
    steps: whoever decodes makes one a step at least. None where no steps are told beside."""
    made = replica.find(Signal.GENERATION_TOKENS)
    ended = grown(made, start, window.end)
    if made is None or not is_seen_by_ends(stretch_of(made, window, start, window.end)):
        return ended
    steps = replica.find(Signal.STEPS)
    return None if steps is None else max(ended, grown(steps, start, window.end))


def _prompts(replica: Replica, start: float, end: float) -> float:
    for signal in (Signal.COMPUTED_PROMPT_TOKENS, Signal.PROMPT_TOKENS):
        series = replica.find(signal)
        if series is not None:
            return grown(series, start, end)
    return 0.0


def _is_full(replica: Replica, start: float, end: float) -> bool:
    waiting = mean_of(replica.find(Signal.WAITING), start, end) or 0.0
    running = replica.find(Signal.RUNNING)
    mean = mean_of(running, start, end) or 0.0
    return running is not None and mean >= _FULL_SHARE * running.max and (
        waiting > 0 or mean == running.max
    )  # fmt: skip


def _is_idle(replica: Replica, start: float, end: float) -> bool:
    running = replica.find(Signal.RUNNING)
    mean = mean_of(running, start, end)
    return running is not None and mean is not None and mean <= _IDLE_SHARE * running.max
