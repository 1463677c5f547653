"""Strays: processes that outlived their replica, that no replica knows, or that sit on its port.

Launchers look for them every few seconds. What is left of a replica is surely ours, by the mark
that it bears, and is ended once two looks have told of it; so an end that takes a moment is none.
A stranger is never touched: the replica whose port it has is given up and replaced on another one.
"""

import functools
from collections.abc import Iterable
from dataclasses import replace

import structlog

from controlplane.hooks import StrayFinder, StrayKind, StrayProcess
from controlplane.operator.attached import ATTACHED_LAUNCHERS
from controlplane.operator.calls import Calls
from controlplane.operator.faults import Faults
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.roster import Roster
from controlplane.operator.settings import OperatorSettings
from controlplane.operator.stray import Stray, StrayJudgement
from dataplane.clock import MonotonicClock, WallClock

_log = structlog.get_logger(__name__)
_MAX_ENDED = 100
_ENDED_NS = 3600 * 10**9
"""What is gone is shown for so long."""


class Strays:
    """Belongs to one reconciler, and to its thread."""

    def __init__(
        self,
        plugins: InstalledPlugins,
        roster: Roster,
        faults: Faults,
        calls: Calls,
        settings: OperatorSettings,
        clock: MonotonicClock,
        wall: WallClock,
    ) -> None:
        self._plugins = plugins
        self._roster = roster
        self._faults = faults
        self._calls = calls
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._looked_at: dict[str, float] = {}
        self._strays: dict[str, Stray] = {}
        self._known: set[str] = set()
        self.unseen: dict[str, str] = {}
        """By launcher: why its last look told nothing."""

    @property
    def all(self) -> list[Stray]:
        """Those that are there, and those that went of late, the newest first."""
        return sorted(self._strays.values(), key=lambda each: -each.found_at_unix_ns)

    def look(self, launchers: Iterable[str]) -> None:
        """Have launchers look if it is time, and end what was found and is surely ours."""
        self._known |= set(launchers) - ATTACHED_LAUNCHERS
        for name in sorted(self._known):
            with self._faults.of_launcher(name):
                launcher = self._plugins.get_launcher(name)
                if isinstance(launcher, StrayFinder):
                    self._look(name, launcher)
                    self._end_remains(name, launcher)

    def intruded(self) -> dict[str, str]:
        """By replica: who has its port, where two looks told of it."""
        return {
            each.process.replica_id: each.why
            for each in self._strays.values()
            if each.kind is StrayJudgement.INTRUDER
            and each.ended_at_unix_ns is None
            and each.num_looks > 1
        }

    def _look(self, name: str, launcher: StrayFinder) -> None:
        now = self._clock()
        if now - self._looked_at.get(name, -1e9) < self._settings.stray_look_seconds:
            return
        found: list[StrayProcess] = []

        def note(error: str | None) -> None:
            if error is None:
                self.unseen.pop(name, None)
                self._take(name, found)
            elif self.unseen.get(name) != error:
                self.unseen[name] = error
                _log.error("no look for strays", launcher=name, error=error)

        def act() -> None:
            found.extend(launcher.find_strays())

        what = f"look for strays of {name}"
        if self._calls.put(what, what, act, note, is_retried=False):
            self._looked_at[name] = now

    def _take(self, launcher: str, found: Iterable[StrayProcess]) -> None:
        now = self._wall()
        there = {each.stray_id: each for each in found}
        for stray_id, process in there.items():
            before = self._strays.get(stray_id)
            if before is not None:
                self._strays[stray_id] = replace(
                    before,
                    process=process,
                    seen_at_unix_ns=now,
                    num_looks=before.num_looks + 1,
                    ended_at_unix_ns=None,
                )
            elif (new := self._judge(launcher, process, now)) is not None:
                self._strays[stray_id] = new
        for stray in list(self._strays.values()):
            if stray.launcher == launcher and stray.stray_id not in there:
                self._note_gone(stray, now)
        self._forget_old(now)

    def _judge(self, launcher: str, process: StrayProcess, now: int) -> Stray | None:
        """None for what is no stray: its replica is being started just now."""
        replica = self._roster.find(process.replica_id)
        if process.kind is StrayKind.INTRUDER:
            kind, why = StrayJudgement.INTRUDER, _why_intruder(process)
        elif replica is not None and replica.launched_at is None:
            return None
        elif replica is not None:
            own, token = replica.spec.fencing_token, process.fencing_token
            kind, why = (
                StrayJudgement.ZOMBIE,
                f"its replica runs as another process ({token}, not {own})",
            )
        else:
            state = self._roster.find_state(process.replica_id)
            kind = StrayJudgement.ORPHAN if state is None else StrayJudgement.ZOMBIE
            why = "no replica was ever called that" if state is None else f"its replica {state}"
        return Stray(
            stray_id=process.stray_id,
            kind=kind,
            launcher=launcher,
            process=process,
            why=why,
            found_at_unix_ns=now,
            seen_at_unix_ns=now,
        )

    def _end_remains(self, name: str, launcher: StrayFinder) -> None:
        for stray in list(self._strays.values()):
            is_due = stray.launcher == name and stray.num_looks > 1
            if (
                is_due
                and stray.kind is not StrayJudgement.INTRUDER
                and stray.ended_at_unix_ns is None
            ):
                act = functools.partial(launcher.end_stray, stray.stray_id)
                note = functools.partial(self._note_error, stray.stray_id)
                what = f"end of {stray.stray_id}"
                self._calls.put(what, what, act, note)

    def _note_error(self, stray_id: str, error: str | None) -> None:
        if (stray := self._strays.get(stray_id)) is not None:
            self._strays[stray_id] = replace(stray, error=error)

    def _note_gone(self, stray: Stray, now: int) -> None:
        if stray.ended_at_unix_ns is not None:
            return
        if stray.kind is StrayJudgement.ZOMBIE and stray.num_looks > 1:
            pid = stray.process.pid
            self._roster.note_remains(
                stray.process.replica_id, f"pid {pid} had outlived it, and was ended"
            )
        self._strays[stray.stray_id] = replace(stray, ended_at_unix_ns=now)

    def _forget_old(self, now: int) -> None:
        """What one look alone told of was about to end by itself, and is not shown as ended."""
        there = [each for each in self._strays.values() if each.ended_at_unix_ns is None]
        ended = [
            each
            for each in self.all
            if each.ended_at_unix_ns is not None
            and each.num_looks > 1
            and now - each.ended_at_unix_ns < _ENDED_NS
        ]
        self._strays = {each.stray_id: each for each in (*there, *ended[:_MAX_ENDED])}


def _why_intruder(process: StrayProcess) -> str:
    who = "another user's process" if process.pid is None else f"pid {process.pid}"
    ports = ", ".join(map(str, process.ports))
    return f"{who} listens on its port ({ports}) as well"
