"""One unit of work for many small changes, committed before it grows long."""

import contextlib

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from controlplane.store.database import Database

_MAX_CHANGES = 200
"""Whoever else writes waits for a commit: so many take some tenths of a second."""


class SharedWork:
    """Belongs to one thread. What fails is rolled back to the last commit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stack = contextlib.ExitStack()
        self._session: Session | None = None
        self._num_changes = 0

    def session(self) -> Session:
        """For one change. Raises SQLAlchemyError also for a commit of earlier ones."""
        if self._num_changes >= _MAX_CHANGES:
            self.commit()
        if self._session is None:
            self._session = self._stack.enter_context(self._database.session())
        self._num_changes += 1
        return self._session

    def commit(self) -> None:
        """End what is open; nothing happens when nothing is."""
        self._session, self._num_changes = None, 0
        self._stack.close()

    def give_up(self, error: SQLAlchemyError) -> None:
        """Roll back what was not committed, because of `error`."""
        self._session, self._num_changes = None, 0
        with contextlib.suppress(SQLAlchemyError):  # the unit of work raises it again
            self._stack.__exit__(type(error), error, error.__traceback__)
