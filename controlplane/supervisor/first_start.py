"""The first start: databases, and the documents that say what to run.

SQLAlchemy and the rest are imported only where there is something to do, because a second
start should not wait for them.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.supervisor.child import REFUSED_EXIT_CODE, GivenUpError, Say
from controlplane.supervisor.settings import GATEWAY, Demo, ServeSettings
from dataplane.access import AuthMode

if TYPE_CHECKING:
    from controlplane.specs.problem import Problem
    from controlplane.store.database import Database, DatabaseKind

_MARK = "documents-applied"
_DATABASES = ("config.db", "requests.db")


def prepare(settings: ServeSettings, say: Say) -> None:
    """Create what is missing, and apply the documents, or the demo where nothing is defined yet.

    With authentication, also the keys of serve's own processes and the first admin's. Raises
    GivenUpError with the remedy for a database or documents that cannot be used.
    """
    state_dir, config_dir = settings.state_dir, settings.config_dir
    is_guarded = settings.auth is AuthMode.REQUIRED
    is_complete = not settings.database_environment and all(
        (state_dir / name).exists() for name in _DATABASES
    )
    mark = state_dir / _MARK
    if is_complete and mark.exists() and config_dir is None and not is_guarded:
        _tell_demo_came_late(settings, say)
        return
    from controlplane.store.database import SchemaError, UnreachableError, UpgradeError

    try:
        _prepare(settings, say)
        if is_guarded:
            _make_keys(settings, say)
    except (SchemaError, UpgradeError) as error:
        raise GivenUpError(str(error), REFUSED_EXIT_CODE) from error
    except UnreachableError as error:
        raise GivenUpError(str(error), 1) from error
    mark.touch()


def check_free(settings: ServeSettings) -> None:
    """Raises GivenUpError when a control plane elsewhere has the databases: what is prepared here
    would be changed under it."""
    if not settings.database_environment:
        return
    from controlplane.store.database import UnreachableError
    from controlplane.store.database_lock import DatabaseInUseError
    from controlplane.supervisor.database_locks import held_locks

    try:
        with held_locks(_urls(settings), "pilothouse serve"):
            pass
    except DatabaseInUseError as error:
        raise GivenUpError(str(error), REFUSED_EXIT_CODE) from error
    except UnreachableError as error:
        raise GivenUpError(str(error), 1) from error


def _urls(settings: ServeSettings) -> "dict[DatabaseKind, str]":
    from controlplane.store.connection import database_urls

    return database_urls(settings.state_dir, settings.config_url, settings.requests_url)


def _prepare(settings: ServeSettings, say: Say) -> None:
    from controlplane.bundled import Bundled, locate
    from controlplane.store.database import DatabaseKind, create_or_open_database
    from controlplane.store.deployments import list_deployments

    config_dir = settings.config_dir
    databases = {kind: create_or_open_database(url, kind) for kind, url in _urls(settings).items()}
    config = databases[DatabaseKind.CONFIG]
    try:
        with config.reading() as session:
            is_empty = not list_deployments(session)
        if config_dir is not None:
            warnings = _apply(config, config_dir, "pilothouse serve --config", say)
            for warning in warnings:
                say(f"warning: {warning}")
        elif is_empty:
            # Its warnings are for who writes documents; `pilothouse apply` tells them.
            is_simulated = settings.demo is Demo.SIMULATOR
            demo = locate(Bundled.SIMULATOR_DEMO if is_simulated else Bundled.DEMO)
            _apply(config, demo, "the demo, at the first start", say)
        else:
            _tell_demo_came_late(settings, say)
    finally:
        for database in databases.values():
            database.close()


def _tell_demo_came_late(settings: ServeSettings, say: Say) -> None:
    if settings.demo is not None:
        say(f"--demo {settings.demo} is for a first start: what was applied before is served")


def _make_keys(settings: ServeSettings, say: Say) -> None:
    from controlplane.access.own_keys import ensure_key, secrets_dir
    from controlplane.store.database import DatabaseKind, open_database
    from controlplane.store.users import has_admin
    from dataplane.access import Role

    kind = DatabaseKind.CONFIG
    database = open_database(_urls(settings)[kind], kind)
    try:
        ensure_key(database, settings.gateway_key_path, GATEWAY, Role.GATEWAY)
        ensure_key(database, settings.own_key_path, "serve", Role.VIEWER)
        with database.reading() as session:
            is_first = not has_admin(session)
        if is_first:
            path = secrets_dir(settings.state_dir) / "admin.key"
            ensure_key(database, path, "first-admin", Role.ADMIN)
            say(f"the first admin's key is in {path}; let people in with")
            say(f"  pilothouse --key-file {path} users create NAME --role admin")
    finally:
        database.close()


def _apply(database: "Database", folder: Path, reason: str, say: Say) -> "tuple[Problem, ...]":
    """Returns the documents' warnings."""
    from controlplane.cli.author import default_author
    from controlplane.cli.config_files import read_files
    from controlplane.specs.documents import load_documents
    from controlplane.specs.installed import INSTALLED_CHECKS
    from controlplane.store.catalog import StoreCatalog
    from controlplane.store.revisions import Change, apply_documents

    with database.session() as session:
        loaded = load_documents(read_files([str(folder)]), StoreCatalog(session), INSTALLED_CHECKS)
        if loaded.problems:
            listed = "\n".join(f"  {problem}" for problem in loaded.problems)
            raise GivenUpError(f"the documents in {folder} cannot be applied:\n{listed}", 2)
        applied = apply_documents(session, loaded.documents, author=default_author(), reason=reason)
    changed = [f"{each.kind} {each.name}" for each in applied if each.change != Change.UNCHANGED]
    if changed:
        say(f"applied {folder}: {', '.join(changed)}")
    return loaded.warnings
