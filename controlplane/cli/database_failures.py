"""Why a command over the databases came to nothing: one line, the remedy, an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from sqlalchemy.exc import DBAPIError

from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.terminal import printable
from controlplane.store.archive import ArchiveError
from controlplane.store.connection import words_of
from controlplane.store.database_lock import DatabaseInUseError
from controlplane.store.schema import SchemaError, UnreachableError
from controlplane.store.upgrade import UpgradeError
from controlplane.supervisor.child import GivenUpError

EXIT_CODES = """\b
Exit codes:
  0  done
  1  failed; what was there is as it was
  2  the command line is wrong
  3  a database cannot be used as it is; the message says what to run
  5  a database server cannot be reached"""


class DatabaseCommandError(click.ClickException):
    """A command failed; it ends with `exit_code`."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(printable(message))
        self._exit_code = exit_code

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """Read by click, which takes one for a whole class of errors."""
        return self._exit_code


@contextmanager
def database_failures() -> Iterator[None]:
    """Tell what goes wrong inside as a message and an exit code."""
    try:
        yield
    except SchemaError as error:
        raise DatabaseCommandError(str(error), ExitCode.UNUSABLE_STATE) from error
    except UnreachableError as error:
        raise DatabaseCommandError(str(error), ExitCode.UNREACHABLE) from error
    except (UpgradeError, ArchiveError, GivenUpError, DatabaseInUseError) as error:
        raise DatabaseCommandError(str(error), ExitCode.FAILED) from error
    except DBAPIError as error:
        raise DatabaseCommandError(
            f"the database says: {words_of(error)}. See that its server runs and has room, "
            f"and run this again",
            ExitCode.FAILED,
        ) from error
