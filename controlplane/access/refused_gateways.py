"""Gateways that are refused for their key: who they are, and what is wrong.

A gateway whose key was revoked goes on serving and falls silent here. It calls every second all
the same, and by its key's own secret it proves who it is, though the key opens nothing any more.
"""

from dataclasses import replace

import structlog

from controlplane.operator.observed import ObservedState
from controlplane.process_history import ProcessEvent, ProcessHistory
from controlplane.store.access_keys import find_any_key
from controlplane.store.database import Database
from dataplane.access import Role, judge_key, key_id_of
from dataplane.clock import WallClock, wall_clock

_REVOKED = "its key was revoked"
_EXPIRED = "its key has expired"
_UNKNOWN = "calls in its name come with a key that is not valid"
_log = structlog.get_logger(__name__)


class RefusedGateways:
    """Writes what is refused, and what is accepted again, into `observed` and the history."""

    def __init__(
        self,
        database: Database,
        observed: ObservedState,
        history: ProcessHistory,
        wall: WallClock = wall_clock,
    ) -> None:
        self._database = database
        self._observed = observed
        self._history = history
        self._wall = wall

    def note_refused(self, name: str, token: str) -> None:
        """A call about the gateway `name` was refused, which showed `token`.

        Whoever cannot prove that a key was theirs is only heard about gateways that are known:
        anybody can make names up.
        """
        proven = self._find_owner(token)
        if proven is not None:
            self._note(*proven)
        elif self._observed.knows_gateway(name):
            self._note(name, _UNKNOWN)

    def note_accepted(self, name: str) -> None:
        """A report of the gateway `name` was taken."""
        if self._observed.note_accepted(name):
            self._enter(name, "accepted", "its key opens again")

    def _find_owner(self, token: str) -> tuple[str, str] | None:
        """The gateway whose key this was, and why it is no more."""
        key_id = key_id_of(token)
        if key_id is None:
            return None
        with self._database.reading() as session:
            found = find_any_key(session, key_id)
        if found is None:
            return None
        key, stored = found
        is_proven = judge_key(token, replace(key, expires_at_unix_ns=None), 0) is None
        if not is_proven or key.role is not Role.GATEWAY:
            return None
        if stored.revoked_at_unix_ns is not None:
            return stored.name, _REVOKED
        expires = key.expires_at_unix_ns
        has_expired = expires is not None and expires <= self._wall()
        return (stored.name, _EXPIRED) if has_expired else None

    def _note(self, name: str, why: str) -> None:
        if self._observed.note_refused(name, why):
            self._enter(name, "refused", why)

    def _enter(self, name: str, what: str, reason: str) -> None:
        event = ProcessEvent(
            at_unix_ns=self._wall(), name=name, role="gateway", what=what, reason=reason
        )
        try:
            self._history.note(event)
        except OSError as error:
            _log.warning("not in the history", gateway=name, what=what, error=str(error))
