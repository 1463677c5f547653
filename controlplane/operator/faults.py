"""What plugins could not do in one pass, by the deployment that must wait for it.

A launcher or an engine plugin may have been uninstalled while replicas of it run, and may raise
anything. That must cost its own deployments only: every other one is brought about as ever.
"""

import contextlib
from collections.abc import Iterator

import structlog
from sqlalchemy.exc import SQLAlchemyError

_log = structlog.get_logger(__name__)


class Faults:
    """One pass at a time: `begin` forgets the last one's."""

    def __init__(self) -> None:
        self._by_deployment: dict[str, str] = {}
        self._by_launcher: dict[str, str] = {}
        self._told: dict[str, str] = {}

    @property
    def by_deployment(self) -> dict[str, str]:
        """Why a deployment is not brought about whole."""
        return dict(self._by_deployment)

    def begin(self) -> None:
        """A new pass."""
        self._told = {**self._by_launcher, **self._by_deployment}
        self._by_deployment = {}
        self._by_launcher = {}

    def find_of_launcher(self, launcher: str) -> str | None:
        """Why nobody knows now what the launcher runs; None when it was asked and answered."""
        return self._by_launcher.get(launcher)

    @contextlib.contextmanager
    def of_launcher(self, launcher: str) -> Iterator[None]:
        """Keep what the block raises for all that the launcher runs, and go on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  (a plugin may raise anything)
            self.note_launcher(launcher, _say(error))

    @contextlib.contextmanager
    def of_deployment(self, deployment: str, what: str) -> Iterator[None]:
        """Keep what the block raises for one deployment, and go on. `what` names the attempt.

        An error of the database is none of one deployment: it fails the whole pass.
        """
        try:
            yield
        except SQLAlchemyError:
            raise
        except Exception as error:  # noqa: BLE001  (a plugin may raise anything)
            self._note(self._by_deployment, deployment, f"{what}: {_say(error)}")

    def note_launcher(self, launcher: str, why: str) -> None:
        """Nobody knows now what the launcher runs, because of `why`."""
        self._note(self._by_launcher, launcher, f"launcher {launcher}: {why}")

    def note(self, deployment: str, why: str) -> None:
        """The deployment waits because of `why`."""
        self._note(self._by_deployment, deployment, why)

    def _note(self, faults: dict[str, str], key: str, why: str) -> None:
        if key not in faults:
            faults[key] = why
            if self._told.get(key) != why:  # else every pass would say it again
                _log.error("held", held=key, why=why)


def _say(error: Exception) -> str:
    return str(error) or type(error).__name__
