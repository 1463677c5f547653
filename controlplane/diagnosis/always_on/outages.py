"""Databases that are not to be had: what can be seen without them is looked at all the same."""

from collections.abc import Callable

from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError

from controlplane.store.connection import words_of
from controlplane.store.database import Database
from controlplane.store.database_url import place_of
from controlplane.store.room import is_out_of_room


class DatabaseLostError(Exception):
    """One did not do what it was asked; the message says which, why, and the remedy."""

    def __init__(self, database: Database, error: DBAPIError) -> None:
        place = f"the {database.kind} database {place_of(database.room.url)}"
        if is_out_of_room(error):
            why, remedy = f"{place} has no room on its disk", "make room there"
        else:
            why = f"{place} did not answer ({words_of(error)})"
            remedy = "`pilothouse db check` says how it stands"
        super().__init__(
            f"{why}. Deployments are looked at all the same, and until it is back no incident is "
            f"opened, seen again or resolved: {remedy}"
        )


class Outages:
    """Of one pass after the other. A database that failed is not asked again in the same pass:
    each time may cost the time that it takes to find out that nobody answers. It is lost until it
    was asked and answered."""

    def __init__(self) -> None:
        self._lost: dict[str, DatabaseLostError] = {}
        self._failed_now: set[str] = set()

    def begin_pass(self) -> None:
        """All may be back."""
        self._failed_now = set()

    def ask(self, database: Database, what: Callable[[], object]) -> bool:
        """Whether `what`, which uses `database`, was done."""
        if database.kind in self._failed_now:
            return False
        try:
            what()
        except (OperationalError, InterfaceError, InternalError) as error:
            self._lost[database.kind] = DatabaseLostError(database, error)
            self._failed_now.add(database.kind)
            return False
        self._lost.pop(database.kind, None)
        return True

    def end_pass(self) -> None:
        """Raises DatabaseLostError for one that is lost."""
        for error in self._lost.values():
            raise error
