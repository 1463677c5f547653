"""Finding who a key or a session belongs to: from the database, remembered for a moment.

A change made in this process is seen at once. One made in another, such as a revocation by a
second control plane, is seen within `_REMEMBER_SECONDS`.
"""

import hashlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError

from controlplane.access.principal import Principal
from controlplane.store.access_keys import find_key
from controlplane.store.database import Database
from controlplane.store.sessions import find_session, is_token, touch_session
from dataplane.access import KeyProblem, judge_key, key_id_of
from dataplane.clock import MonotonicClock, WallClock, monotonic_clock, wall_clock

_REMEMBER_SECONDS = 2.0
_MAX_REMEMBERED = 10_000

FoundT = TypeVar("FoundT")
_log = structlog.get_logger(__name__)


class AccessDirectory:
    """Threads share it. What it answers is never older than a moment."""

    def __init__(
        self,
        database: Database,
        clock: MonotonicClock = monotonic_clock,
        wall: WallClock = wall_clock,
    ) -> None:
        self._database = database
        self._wall = wall
        self._keys: _Memory[Principal | KeyProblem] = _Memory(clock)
        self._sessions: _Memory[Principal | None] = _Memory(clock)

    def by_key(self, text: str) -> Principal | KeyProblem:
        """Whose key it is, or why it opens nothing."""
        key_id = key_id_of(text)
        if key_id is None:
            return KeyProblem.MALFORMED
        return self._keys.get(text, lambda: self._read_key(key_id, text))

    def by_session(self, token: str) -> Principal | None:
        """Who is logged in with this session; None when it has ended."""
        if not is_token(token):
            return None
        return self._sessions.get(token, lambda: self._read_session(token))

    @property
    def num_remembered(self) -> int:
        """Keys and sessions; never more than twice the bound."""
        return len(self._keys) + len(self._sessions)

    def forget(self) -> None:
        """Keys, users or sessions were changed: ask the database again."""
        self._keys.clear()
        self._sessions.clear()

    def _read_key(self, key_id: str, text: str) -> Principal | KeyProblem:
        with self._database.reading() as session:
            found = find_key(session, key_id)
        key, name = found or (None, "")
        problem = judge_key(text, key, self._wall())
        if problem is not None or key is None:
            return problem or KeyProblem.UNKNOWN
        return Principal(name=name, role=key.role, tenant=key.tenant, key_id=key.key_id)

    def _read_session(self, token: str) -> Principal | None:
        now = self._wall()
        with self._database.reading() as session:
            found = find_session(session, token, now)
        if found is None:
            return None
        if found.needs_touch:
            self._touch(token, now)
        return Principal(
            name=found.user_name,
            role=found.role,
            tenant=found.tenant,
            csrf_token=found.csrf_token,
        )

    def _touch(self, token: str, now_unix_ns: int) -> None:
        """Best effort: a page is shown although a full or busy database cannot take this."""
        try:
            with self._database.session() as session:
                touch_session(session, token, now_unix_ns)
        except SQLAlchemyError as error:
            _log.warning("a session's use was not noted", error=type(error).__name__)


class _Memory(Generic[FoundT]):
    """What was found, for a moment, by the digest of what was asked with."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[float, FoundT]] = {}
        self._generation = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, secret: str, find: Callable[[], FoundT]) -> FoundT:
        name = hashlib.sha256(secret.encode()).digest()
        known = self._known.get(name)
        if known is not None and self._clock() < known[0]:
            return known[1]
        generation = self._generation
        found = find()
        with self._lock:
            # What was read before a change must not outlive it.
            if generation == self._generation:
                if len(self._known) >= _MAX_REMEMBERED:
                    self._known.clear()
                self._known[name] = (self._clock() + _REMEMBER_SECONDS, found)
        return found

    def clear(self) -> None:
        with self._lock:
            self._generation += 1
            self._known.clear()
