"""Everything that the steps of one replica did: for small runs that are looked at whole.

It keeps a line for every step and an instant for every token, so it is for golden tables,
examples and tests. A fleet keeps records.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedChunk:
    """What a step did for one sequence."""

    request_id: str
    num_tokens: int
    is_prefill: bool

    def __str__(self) -> str:
        return f"{self.request_id}:{'P' if self.is_prefill else 'D'}{self.num_tokens}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStep:
    """One step, its work in arrival order. Times are the timeline's."""

    start: float
    end: float
    chunks: tuple[LoggedChunk, ...]
    num_prompt_tokens: int
    num_decode_steps: int
    num_reread_tokens: int


class StepLog:
    """A `StepObserver` that keeps all it is told."""

    def __init__(self, timeline: Timeline) -> None:
        self.steps: list[LoggedStep] = []
        self.admitted_at: dict[str, float] = {}
        """By request id: when its first step began."""
        self.selected_at: dict[str, list[float]] = {}
        """By request id: when each of its tokens was selected."""
        self.finished_at: dict[str, float] = {}
        self._timeline = timeline
        self._began_at: float = 0

    def step_began(self, plan: StepPlan) -> None:
        """Notes the time and who was admitted."""
        self._began_at = self._timeline.now
        for sequence in plan.admitted:
            self.admitted_at[sequence.request_id] = self._began_at

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        """Adds a line."""
        now = self._timeline.now
        self.steps.append(_logged(plan, self._began_at, now))
        for chunk in plan.chunks:
            if chunk.selects_token:
                self.selected_at.setdefault(chunk.sequence.request_id, []).append(now)
        for sequence in complete:
            self.finished_at[sequence.request_id] = now

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        """Notes the time."""
        self.finished_at[sequence.request_id] = self._timeline.now

    @property
    def num_selected(self) -> int:
        """Tokens, of all sequences."""
        return sum(map(len, self.selected_at.values()))

    def slot_utilization(self, num_slots: int) -> float:
        """Tokens selected over those that `num_slots` could have selected in the steps there were.

        0 without a step.
        """
        num_possible = len(self.steps) * num_slots
        return self.num_selected / num_possible if num_possible else 0.0

    def largest_gap(self, request_id: str, since: float | None = None) -> float | None:
        """Between two tokens in a row, or from `since` to the first; None without two instants."""
        instants = self.selected_at.get(request_id, [])
        if since is not None:
            instants = [since, *instants]
        return max((later - earlier for earlier, later in pairwise(instants)), default=None)


def _logged(plan: StepPlan, start: float, end: float) -> LoggedStep:
    return LoggedStep(
        start=start,
        end=end,
        chunks=tuple(
            LoggedChunk(
                request_id=chunk.sequence.request_id,
                num_tokens=chunk.num_tokens,
                is_prefill=chunk.is_prefill,
            )
            for chunk in plan.chunks
        ),
        num_prompt_tokens=plan.num_prompt_tokens,
        num_decode_steps=plan.num_decode_steps,
        num_reread_tokens=plan.num_reread_tokens,
    )
