"""Making a bundle: every section in turn, and what went wrong with each in its manifest."""

from collections.abc import Callable, Mapping
from pathlib import Path

from controlplane.store.connection import DatabaseKind
from controlplane.support.archive import Archive, Entry
from controlplane.support.asking import Asker
from controlplane.support.scrub import Scrubber, passwords_in, secrets_of
from controlplane.support.sections import sections


def write_bundle(
    path: Path,
    state_dir: Path,
    urls: Mapping[DatabaseKind, str],
    asker: Asker,
    environment: Mapping[str, str],
    now_unix: int,
    on_section: Callable[[str, float], None],
) -> list[Entry]:
    """Write the bundle to `path`, which must not exist, and say what is in it and what is not.

    `on_section` is told each section's name and the share of all that is done. Secrets are those
    of `environment` and everything that looks like one. Raises OSError when `path` cannot be
    written, and then leaves nothing there.
    """
    scrubber = Scrubber([*secrets_of(environment), *asker.secrets, *passwords_in(urls.values())])
    todo = sections(state_dir, urls, asker)
    with Archive(path, scrubber, now_unix) as archive:
        for number, section in enumerate(todo):
            on_section(section.name, number / len(todo))
            try:
                section.gather(archive)
            except Exception as error:  # noqa: BLE001 - whatever is broken is why it is asked for
                archive.note_missing(section.name, f"{type(error).__name__}: {error}")
        return archive.entries
