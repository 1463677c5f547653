"""The thread that tells people by one notifier: what it cannot tell now it tells later.

It is given what fires, and looks what is due of that: so nothing piles up while a webhook is away,
and what ended meanwhile is told as it is by then. What it is about to tell is kept before it is
sent, and that it arrived afterwards: whatever comes in between, both the alert and its end are told
once at least.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import structlog
from sqlalchemy.exc import SQLAlchemyError

from controlplane.hooks import Notifier, NotifyError
from controlplane.slo.alert import Alert, AlertSubject
from controlplane.slo.alerting_settings import NotifierPlan
from controlplane.slo.notices.notice import Notice
from controlplane.slo.notices.planning import Planned, plan_notices, with_ends
from controlplane.store.database import Database
from controlplane.store.told_alerts import Group, Told, keep_told, read_told
from dataplane.clock import WallClock

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds after an attempt that failed: the first where something is due that was not tried yet,
and before what failed is tried again twice as long each time. It is tried for as long as something
is due (see `planning`)."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What one evaluation found."""

    firing: tuple[Alert, ...]
    is_silenced: Callable[[AlertSubject], bool]


@dataclass(slots=True, kw_only=True)
class TellerState:
    """For API and metrics. Its thread alone changes it."""

    num_told: int = 0
    num_failed: int = 0
    """Attempts."""
    told_at_unix_ns: int | None = None
    error: str | None = None
    """Why the last attempt failed; None when it did not."""
    num_due: int = 0
    """Messages that are due and were not told yet."""


class Teller:
    """One notifier's."""

    def __init__(
        self,
        notifier_plan: NotifierPlan,
        notifier: Notifier,
        config_db: Database,
        console_url: str,
        clock: WallClock,
        first_pause_seconds: float = FIRST_PAUSE,
    ) -> None:
        self.plan = notifier_plan
        self.state = TellerState()
        self._notifier = notifier
        self._config_db = config_db
        self._console_url = console_url
        self._clock = clock
        self._first_pause = self._pause = first_pause_seconds
        self._told: dict[Group, Told] | None = None
        """None: it is still to be read."""
        self._unkept: set[Group] = set()
        """Of which the database does not have what is told."""
        self._failed: set[Group] = set()
        """Whose last attempt did not go well."""
        self._situation: Situation | None = None
        self._lock = threading.Lock()
        self._wake, self._stopping = threading.Event(), threading.Event()
        name = f"tell-{notifier_plan.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; nothing is told until something was put."""
        self._thread.start()

    def put(self, situation: Situation) -> None:
        """What fires now. Returns at once."""
        with self._lock:
            self._situation = situation
        self._wake.set()

    def test(self, notice: Notice) -> str:
        """Tell it at once, in the caller's thread; returns what was answered. Raises NotifyError,
        also for what a plugin raises instead."""
        return self._notify(notice)

    def stop(self, seconds: float = 1.0) -> None:
        """End; an attempt that is under way is not waited for longer than that."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopping.is_set():
                return
            while not self._tell_due():
                self.state.num_failed += 1
                self._wait(self._next_pause())
                if self._stopping.is_set():
                    return
            self._pause = self._first_pause

    def _next_pause(self) -> float:
        if self._has_untried():
            return self._first_pause
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return pause

    def _wait(self, seconds: float) -> None:
        """So long, or until something is due that was not tried yet: it waits for no other."""
        ends_at = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := ends_at - time.monotonic()) > 0:
            if self._wake.wait(left):
                self._wake.clear()
                if self._has_untried():
                    return

    def _has_untried(self) -> bool:
        situation = self._newest()
        if self._told is None or situation is None:
            return False
        return any(each.group not in self._failed for each in self._due(situation))

    def _newest(self) -> Situation | None:
        with self._lock:
            return self._situation

    def _due(self, situation: Situation) -> list[Planned]:
        """What failed comes last: what one deployment's message lacks holds no other's back."""
        now = self._clock()
        self._told = with_ends(self._known(), situation.firing, now)
        found = plan_notices(
            situation.firing, self._told, situation.is_silenced, self._console_url, now
        )
        self.state.num_due = sum(each.notice is not None for each in found)
        return sorted(found, key=lambda each: each.group in self._failed)

    def _each_due(self) -> Iterator[Planned]:
        """Looked for anew as soon as something else fires: to tell all may take minutes, and a page
        waits for no tickets."""
        while (situation := self._newest()) is not None:
            due = self._due(situation)
            for each in due:
                yield each
                if self._newest() is not situation:
                    break
            else:
                return

    def _tell_due(self) -> bool:
        """Whether all that is due was told and kept."""
        try:
            for each in self._each_due():
                if self._stopping.is_set():
                    return True
                self._failed.add(each.group)
                self._tell(each)
                self._failed.discard(each.group)
            self._keep()
        # Whatever it is must not end the thread: the next attempt finds what is due by then, and
        # until it goes well the error is counted and shown.
        except Exception as error:  # noqa: BLE001
            self._note_failure(error)
            return False
        self._failed.clear()
        self.state.error = None
        return True

    def _known(self) -> dict[Group, Told]:
        if self._told is None:
            with self._config_db.reading() as session:
                self._told = read_told(session, self.plan.name)
        return self._told

    def _tell(self, planned: Planned) -> None:
        if planned.notice is None:
            _log.warning(
                "an end was not told in time", notifier=self.plan.name, deployment=planned.group
            )
        else:
            if planned.begun is not None:
                self._note_known(planned.group, planned.begun)
            self._notify(planned.notice)
            self.state.num_told += 1
            self.state.num_due -= 1
            self.state.told_at_unix_ns = self._clock()
        self._note_known(planned.group, planned.told)

    def _note_known(self, group: Group, told: Told | None) -> None:
        """First in memory: people know, whether the database takes it or not. After one that it did
        not take nobody waits for it again until all that is due was told."""
        known, is_behind = self._known(), bool(self._unkept)
        known.pop(group, None)
        if told is not None:
            known[group] = told
        self._unkept.add(group)
        if not is_behind:
            with suppress(Exception):  # `_tell_due` tries again, and says so
                self._keep()

    def _keep(self) -> None:
        if not self._unkept:
            return
        with self._config_db.session() as session:
            for group in self._unkept:
                keep_told(session, self.plan.name, group, self._known().get(group))
        self._unkept.clear()

    def _notify(self, notice: Notice) -> str:
        try:
            return self._notifier.notify(notice)
        except NotifyError:
            raise
        # A plugin's, or a file that cannot be read any more: it must not end the thread.
        except Exception as error:
            raise NotifyError(f"{type(error).__name__}: {error}") from error

    def _note_failure(self, error: Exception) -> None:
        is_expected = isinstance(error, (NotifyError, SQLAlchemyError))
        said = str(getattr(error, "orig", None) or error)
        said = said if is_expected else f"{type(error).__name__}: {said}"
        if said != self.state.error:
            _log.error(
                "people could not be told of alerts",
                notifier=self.plan.name,
                kind=self.plan.kind,
                error=said,
                exc_info=not is_expected,
            )
        self.state.error = said
