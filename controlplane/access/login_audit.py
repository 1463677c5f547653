"""Who logged in and out, and who could not, entered into the audit.

A login and a logout stand there each, in the transaction that makes them so. Failures stand there
as the tally tells them (see login_tally). Never a password; and a name that nobody has is not kept
either, because a password is what people type there by mistake.
"""

import threading
from datetime import UTC, datetime

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from controlplane.access.login_tally import WINDOW_NS, Failure, Failures, LoginTally
from controlplane.store.audit import record_change
from controlplane.store.database import Database
from dataplane.clock import WallClock, wall_clock

NOBODY = "(unknown)"
"""Whoever could not log in, and a name that nobody has. No user can be called so."""
_log = structlog.get_logger(__name__)


class LoginAudit:
    """Threads share it."""

    def __init__(
        self, database: Database, tally: LoginTally | None = None, clock: WallClock = wall_clock
    ) -> None:
        self._database = database
        self._tally = tally or LoginTally()
        self._clock = clock
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def note_begin(self, session: Session, user: str, address: str) -> None:
        """`user` is logged in when `session` commits."""
        record_change(
            session, actor=user, action="login.begin", subject=f"user/{user}",
            reason=f"from {address}", before=None, after={"address": address}, clock=self._clock,
        )  # fmt: skip

    def note_end(self, session: Session, user: str, address: str) -> None:
        """`user` is logged out, by themselves, when `session` commits."""
        record_change(
            session, actor=user, action="login.end", subject=f"user/{user}",
            reason=f"from {address}", before={"address": address}, after=None, clock=self._clock,
        )  # fmt: skip

    def note_failure(self, why: Failure, user: str | None, address: str) -> None:
        """Nobody was logged in. `user` is one who exists; None: the name is nobody's."""
        with self._lock:
            told = self._tally.add(why, user, address, self._clock())
            self._look_again_later()
        self._enter(told)

    def close(self) -> None:
        """Tell what was counted so far. No attempt may follow."""
        with self._lock:
            self._is_closed = True
            timer, told = self._timer, self._tally.take_all()
        if timer is not None:
            timer.cancel()
            timer.join()
        self._enter_late(told)

    def _look_again_later(self) -> None:
        if self._timer is None and not self._is_closed and not self._tally.is_empty:
            self._timer = threading.Timer(WINDOW_NS / 1e9, self._tell_ended)
            self._timer.daemon = True
            self._timer.start()

    def _tell_ended(self) -> None:
        with self._lock:
            self._timer = None
            told = self._tally.take_ended(self._clock())
            self._look_again_later()
        self._enter_late(told)

    def _enter_late(self, told: list[Failures]) -> None:
        """Nobody waits for it who could be answered that it went wrong."""
        try:
            self._enter(told)
        except SQLAlchemyError as error:
            number = sum(each.number for each in told)
            _log.error(
                "failed logins could not be entered into the audit",
                error=type(error).__name__,
                num_attempts=number,
            )

    def _enter(self, told: list[Failures]) -> None:
        if not told:
            return
        with self._database.session() as session:
            for each in told:
                record_change(
                    session,
                    actor=NOBODY,
                    action="login.throttle" if each.why is Failure.THROTTLED else "login.fail",
                    subject=f"user/{each.user or NOBODY}",
                    reason=_sentence(each),
                    before=None,
                    after=_facts(each),
                    clock=self._clock,
                )


def _sentence(failures: Failures) -> str:
    what = f"{failures.why}, from {failures.address or 'several addresses'}"
    if failures.number == 1:
        return what
    seconds = (failures.last_at_unix_ns - failures.first_at_unix_ns) / 1e9
    # The first of them stands there already, alone: without "in all" it would count twice.
    return f"{failures.number} times in all within {seconds:.0f} s: {what}"


def _facts(failures: Failures) -> dict[str, object]:
    return {
        "address": failures.address,
        "attempts": failures.number,
        "first_at": _instant(failures.first_at_unix_ns),
        "last_at": _instant(failures.last_at_unix_ns),
    }


def _instant(unix_ns: int) -> str:
    return f"{datetime.fromtimestamp(unix_ns / 1e9, UTC):%Y-%m-%d %H:%M:%SZ}"
