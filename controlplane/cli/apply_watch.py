"""Following what was applied, until it has come about."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from controlplane.cli.client import UnreachableError, convert_answer, get_json
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.terminal import say
from controlplane.specs.quantity import parse_duration

_INTERVAL_SECONDS = 1.0
_MAX_NAMED = 200
"""Deployments that are asked for by name; of more, all are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutAnswer:
    """A rollout, under way or over."""

    number: int
    state: str
    step: int
    num_steps: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingAnswer:
    """How far a deployment has come."""

    deployment: str
    generation: int
    observed_generation: int
    rollout: RolloutAnswer | None
    """The one under way."""
    last_rollout: RolloutAnswer | None
    """The newest, also one that is over."""
    hold: str | None
    is_settled: bool

    @property
    def version(self) -> tuple[int, int | None]:
        """Changes with whatever applying does to it."""
        return self.generation, None if self.last_rollout is None else self.last_rollout.number


class Watch:
    """Made before applying: what it moves is what stands otherwise afterwards."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._before = {each.deployment: each.version for each in self._ask()}
        self._names: list[str] | None = None

    def follow(self, timeout: str) -> ExitCode:
        """Say each change, until nothing moves any more, a rollout is aborted, or the time is
        over. A control plane that does not answer for a while is asked again. Ctrl-C ends the
        command, and takes nothing back."""
        try:
            return self._follow(timeout)
        except KeyboardInterrupt:
            say("not watched any more; what was applied goes on by itself", is_error=True)
            raise

    def _follow(self, timeout: str) -> ExitCode:
        until = time.monotonic() + parse_duration(timeout)
        told: set[str] = set()
        while True:
            moved = self._moved()
            if moved is not None:
                for line in map(_line, moved):
                    if line not in told:
                        told.add(line)
                        say(line)
                aborted = any(self._is_aborted(each) for each in moved)
                if aborted or all(each.is_settled for each in moved):
                    return _end(moved, aborted)
            if time.monotonic() >= until:
                say(f"not settled within {timeout}; it goes on by itself", is_error=True)
                return ExitCode.FAILED
            time.sleep(_INTERVAL_SECONDS)

    def _moved(self) -> list[StandingAnswer] | None:
        """Deployments that stand otherwise than before; None: nobody answers."""
        try:
            found = self._ask(self._names)
        except UnreachableError as error:
            say(f"{error.message}; asking again", is_error=True)
            return None
        moved = [each for each in found if self._before.get(each.deployment) != each.version]
        if self._names is None:
            self._names = [each.deployment for each in moved]
        return moved

    def _is_aborted(self, standing: StandingAnswer) -> bool:
        """By what was applied: one that was aborted before says nothing about this."""
        last = standing.last_rollout
        if standing.rollout is not None or last is None or last.state != "aborted":
            return False
        before = self._before.get(standing.deployment)
        return before is None or before[1] != last.number

    def _ask(self, names: list[str] | None = None) -> list[StandingAnswer]:
        if names is not None and not names:
            return []
        is_named = names is not None and len(names) <= _MAX_NAMED
        asked = "?" + urlencode([("deployment", n) for n in names or ()]) if is_named else ""
        answer = get_json(self._url, f"/api/v1/plan/standing{asked}")
        found = convert_answer(self._url, answer, list[StandingAnswer])
        return [each for each in found if names is None or each.deployment in names]


def _end(moved: list[StandingAnswer], aborted: bool) -> ExitCode:
    if aborted:
        return ExitCode.FAILED
    say("settled" if moved else "settled: no deployment had to move")
    return ExitCode.OK


def _line(standing: StandingAnswer) -> str:
    return f"{standing.deployment}: {'; '.join(_words(standing))}"


def _words(standing: StandingAnswer) -> Iterator[str]:
    rollout = standing.rollout or standing.last_rollout
    if rollout is not None:
        step = f" at step {rollout.step} of {rollout.num_steps}" if standing.rollout else ""
        yield f"rollout {rollout.number} is {rollout.state}{step}: {rollout.reason}"
    if standing.generation != standing.observed_generation:
        yield f"generation {standing.generation} is being brought about"
    else:
        yield f"generation {standing.generation} is what runs"
    if standing.hold is not None:
        yield f"held: {standing.hold}"
