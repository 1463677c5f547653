"""What a command over the databases needs before it changes them whole: nobody else at them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from controlplane.store.connection import DatabaseKind
from controlplane.store.database_lock import has_server
from controlplane.supervisor.database_locks import held_locks
from controlplane.supervisor.state_lock import state_lock


@contextmanager
def sole_use(state_dir: Path, urls: Mapping[DatabaseKind, str], command: str) -> Iterator[None]:
    """Inside, no control plane runs over `urls`: by the lock beside each SQLite file and that of
    the state directory, by the server's own for PostgreSQL.

    Raises GivenUpError, DatabaseInUseError and UnreachableError.
    """
    with ExitStack() as stack:
        if not all(has_server(url) for url in urls.values()):
            lock = state_lock(state_dir.absolute(), "controlplane.lock", "control plane")
            stack.enter_context(lock)
        stack.enter_context(held_locks(urls, command))
        yield
