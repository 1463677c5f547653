"""Databases that are not to be had: what can be seen without them is looked at all the same."""

from collections.abc import Callable

from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError

from controlplane.store.connection import DatabaseKind, words_of
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
        super().__init__(f"{why}. {_COSTS[database.kind]}: {remedy}")


_COSTS = {
    DatabaseKind.CONFIG: "Deployments are looked at all the same, and until it is back no incident "
    "is opened, seen again or resolved",
    DatabaseKind.REQUESTS: "Deployments are looked at all the same, without the counts of how "
    "their requests ended",
}
_TOLD_PASSES = 12
"""A minute's: so long a failure is told of where nothing asks again for what failed."""


class Outages:
    """Of one pass after the other. What failed is not asked again in the same pass: each time may
    cost the time that it takes to find out that nobody answers. Reading and writing are apart: a
    full disk can still be read."""

    def __init__(self) -> None:
        self._lost: dict[tuple[str, bool], DatabaseLostError] = {}
        self._num_passes: dict[tuple[str, bool], int] = {}
        """Since it failed."""

    def begin_pass(self) -> None:
        """All may be back."""
        self._num_passes = {key: number + 1 for key, number in self._num_passes.items()}
        for key in [key for key, number in self._num_passes.items() if number > _TOLD_PASSES]:
            del self._lost[key], self._num_passes[key]

    def ask(
        self, database: Database, what: Callable[[], object], *, is_writing: bool = False
    ) -> bool:
        """Whether `what`, which uses `database`, could be done. It returns False where it did not
        use it after all, and so does not show that it is there."""
        key = (database.kind, is_writing)
        if self._num_passes.get(key) == 0:
            return False
        try:
            was_used = what()
        except (OperationalError, InterfaceError, InternalError) as error:
            self._lost[key], self._num_passes[key] = DatabaseLostError(database, error), 0
            return False
        if was_used is not False and key in self._lost:
            del self._lost[key], self._num_passes[key]
        return True

    def end_pass(self) -> None:
        """Raises DatabaseLostError for one that is lost."""
        for error in self._lost.values():
            raise error
