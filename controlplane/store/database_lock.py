"""One control plane at a time has a PostgreSQL database, wherever the others run.

Two that decide over one database would undo each other's work. A file's lock in the state
directory tells those of one machine; here the server itself does: a session holds an advisory lock
on a connection of its own, and the server lets it go with that connection, so that a process which
was killed leaves nothing to clear away. The session is named after its holder, for the next one to
read. It must last: a pooler that lends connections by the transaction cannot carry it.

SQLite's files have a lock beside them (`file_lock`).
"""

import os
import socket
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from controlplane.store.connection import DatabaseKind, create_bare_engine
from controlplane.store.database_url import place_of, sqlite_path
from controlplane.store.schema import connect

WAIT_SECONDS = 3.0
"""Longer than a server takes to notice that a process on its way out is gone."""
GONE_SECONDS = 30
"""After so long a server lets go of what a machine held that fell silent."""

_LOCK_CLASS = 0x70696C6F
"""Ours among all advisory locks of a database: "pilo"."""
_LOCK_NUMBERS = {DatabaseKind.CONFIG: 1, DatabaseKind.REQUESTS: 2}
_LOCK_NOT_AVAILABLE = "55P03"
_MAX_NAME = 63
"""Bytes of an application's name; a server cuts it off there."""
_SESSION = {
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    # Over TCP; a socket of this machine ends with the process.
    "tcp_keepalives_idle": str(GONE_SECONDS // 3),
    "tcp_keepalives_interval": str(GONE_SECONDS // 6),
    "tcp_keepalives_count": "4",
}
_CLIENT = {"keepalives_idle": "10", "keepalives_interval": "5", "tcp_user_timeout": "10000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """Who has a database, as far as its server tells us. None: it does not."""

    application: str | None
    """As it named itself: what it is, its pid and its host."""
    address: str | None
    """Where it connects from; None on the server's own machine."""
    server_pid: int
    """Of its connection, for pg_terminate_backend."""
    since: datetime | None

    def __str__(self) -> str:
        who = self.application or "somebody whom this user may not see"
        where = f"from {self.address}" if self.address else "on the server's machine"
        since = "" if self.since is None else f", since {self.since:%Y-%m-%d %H:%M:%S%z}"
        return f"{who} (connected {where}, backend {self.server_pid}{since})"


class DatabaseInUseError(Exception):
    """Somebody else has the database; the message says who, and the remedy."""

    def __init__(self, url: str, kind: DatabaseKind, holder: LockHolder | str | None) -> None:
        """`holder`: a string says who has a file; None where nobody is named any more."""
        who = "somebody who has just left" if holder is None else str(holder)
        silent = f". What fell silent with its machine is let go after {GONE_SECONDS} s"
        super().__init__(
            f"the {kind} database {place_of(url)} is in use by {who}. One at a time may have it: "
            f"end that one, or name another database with --{kind}-url"
            f"{silent if has_server(url) else ''}"
        )
        self.kind = kind
        self.holder = holder


class DatabaseLock:
    """The lock on one PostgreSQL database. One thread at a time uses it."""

    def __init__(self, url: str, kind: DatabaseKind, purpose: str) -> None:
        """`purpose` says what the holder is, such as `pilothouse controlplane`."""
        self.url = url
        self.kind = kind
        self._name = _fitting(f"{purpose} pid {os.getpid()} on {socket.gethostname()}")
        self._engine = create_bare_engine(url, _CLIENT)
        self._connection: Connection | None = None

    def acquire(self, wait_seconds: float = WAIT_SECONDS) -> None:
        """Take it, waiting a moment for one who is about to leave.

        Raises DatabaseInUseError, and UnreachableError when the server does not answer.
        """
        self.release()
        connection = connect(self._engine, self.url, self.kind).execution_options(
            isolation_level="AUTOCOMMIT"  # in a transaction it would hold up the server's cleaning
        )
        try:
            self._take(connection, wait_seconds)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def is_held(self) -> bool:
        """Asks the server; False when the connection, and so the lock, is gone."""
        if self._connection is None:
            return False
        try:
            self._connection.execute(text("SELECT 1"))
        except DBAPIError:
            return False
        return True

    def release(self) -> None:
        """Let it go. Twice is no error."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, connection: Connection, wait_seconds: float) -> None:
        names = {"application_name": self._name, **_SESSION}
        names["lock_timeout"] = str(max(1, round(wait_seconds * 1000)))
        for name, value in names.items():
            connection.execute(
                text("SELECT set_config(:name, :value, false)"), {"name": name, "value": value}
            )
        number = {"class": _LOCK_CLASS, "number": _LOCK_NUMBERS[self.kind]}
        try:
            connection.execute(
                text("SELECT pg_advisory_lock(CAST(:class AS int), CAST(:number AS int))"), number
            )
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
            holder = find_holder(connection, self.kind)
            raise DatabaseInUseError(self.url, self.kind, holder) from error


def find_holder(connection: Connection, kind: DatabaseKind) -> LockHolder | None:
    """Who has the lock on the database at the other end; None when nobody has."""
    row = connection.execute(
        text(
            "SELECT l.pid, a.application_name, host(a.client_addr) AS address, a.backend_start "
            "FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid "
            "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 "
            "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND CAST(l.classid AS bigint) = :class AND CAST(l.objid AS bigint) = :number"
        ),
        {"class": _LOCK_CLASS, "number": _LOCK_NUMBERS[kind]},
    ).one_or_none()
    if row is None:
        return None
    return LockHolder(
        application=row.application_name or None,
        address=row.address,
        server_pid=row.pid,
        since=row.backend_start,
    )


def has_server(url: str) -> bool:
    """Whether a server holds this database, and not a file. Raises DatabaseUrlError."""
    return sqlite_path(url) is None


def _fitting(name: str) -> str:
    return name.encode("ascii", "replace")[:_MAX_NAME].decode()
