"""Revisions that were read before: they never change, so their documents are read and checked once.

A large installation has thousands of them, and the operator, rules, alerts and pages look at all
of them several times a second. What identifies one is looked up each time all the same: ids are
given out again after a roll-back, and a database may be put in the place of another.
"""

import threading
from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.store.revision import Revision, read_revision
from controlplane.store.tables import RevisionRow

_MAX_KEPT = 20_000
_KEY = "pilothouse_revisions"

_Identity = tuple[int, str, int]
"""Id, digest and time of creation."""


class RevisionCache:
    """One database's. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[_Identity, Revision] = {}

    def as_info(self) -> dict[str, "RevisionCache"]:
        """As sessions carry it along."""
        return {_KEY: self}

    def read(self, session: Session, ids: Collection[int]) -> dict[int, Revision]:
        """By id; those that there are. Raises ValueError where a new one is no JSON."""
        identities = self._identities(session, ids)
        with self._lock:
            found = {each[0]: self._known[each] for each in identities if each in self._known}
        missing = [each[0] for each in identities if each[0] not in found]
        if missing:
            rows = session.scalars(select(RevisionRow).where(RevisionRow.id.in_(missing)))
            new = [read_revision(row) for row in rows]
            found |= {each.id: each for each in new}
            self._keep(new)
        return found

    def _identities(self, session: Session, ids: Collection[int]) -> list[_Identity]:
        query = select(RevisionRow.id, RevisionRow.digest, RevisionRow.created_at_unix_ns)
        rows = session.execute(query.where(RevisionRow.id.in_(ids)))
        return [(number, digest, at) for number, digest, at in rows]

    def _keep(self, revisions: list[Revision]) -> None:
        with self._lock:
            for each in revisions:
                self._known[each.id, each.digest, each.created_at_unix_ns] = each
            for identity in list(self._known)[: max(0, len(self._known) - _MAX_KEPT)]:
                del self._known[identity]  # the oldest


def read_revisions(session: Session, ids: Collection[int]) -> dict[int, Revision]:
    """By id; those that there are, from what the session's database knows already.

    Raises ValueError where one that was never read is no JSON.
    """
    cache: RevisionCache = session.info.setdefault(_KEY, RevisionCache())
    return cache.read(session, ids)
