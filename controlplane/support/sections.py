"""What goes into a bundle, file by file. Each section fails alone."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.store.connection import DatabaseKind
from controlplane.support import control_plane, machine, state
from controlplane.support.archive import Archive
from controlplane.support.asking import Asker


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a bundle that is gathered in one go."""

    name: str
    """The folder or file in the archive."""
    gather: Callable[[Archive], None]
    """Adds its files, and notes those that it could not get. Whatever it raises is noted too."""


def sections(state_dir: Path, urls: Mapping[DatabaseKind, str], asker: Asker) -> list[Section]:
    """All of them, in the order in which they are gathered."""
    return [
        Section(name="system.json", gather=machine.add_system(state_dir)),
        Section(name="packages.json", gather=machine.add_packages),
        Section(name="environment.json", gather=machine.add_environment),
        Section(name="plugins.json", gather=machine.add_plugins),
        Section(name="state/processes.json", gather=state.add_processes(state_dir)),
        Section(name="state/schema.json", gather=state.add_schema(urls)),
        Section(name="state/files.json", gather=state.add_files(state_dir)),
        Section(name="state/documents.json", gather=state.add_documents(urls[DatabaseKind.CONFIG])),
        Section(name="logs", gather=state.add_logs(state_dir)),
        *_asked(state_dir, asker),
    ]


def _asked(state_dir: Path, asker: Asker) -> Iterator[Section]:
    yield Section(name="api/health.txt", gather=control_plane.add_health(asker))
    for name, path in control_plane.PATHS.items():
        yield Section(name=f"api/{name}", gather=control_plane.add_answer(asker, name, path))
    yield Section(name="api/requests.json", gather=control_plane.add_requests(asker))
    yield Section(name="metrics", gather=control_plane.add_metrics(asker, state_dir))
