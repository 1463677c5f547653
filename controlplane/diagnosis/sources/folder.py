"""The files of a folder and of those below it, within bounds: whoever names a disk, or a checkout,
meant a part of it."""

import os
from collections.abc import Iterator
from pathlib import Path

from controlplane.diagnosis.sources import bounds
from controlplane.diagnosis.sources.input_error import InputError


def files_of(folder: Path) -> Iterator[Path | InputError]:
    """In order, without what is hidden, and without devices and pipes. A folder in it that may not
    be entered is told of; one that was named and holds nothing or too much, or may not be entered,
    raises InputError."""
    refused: list[InputError] = []
    found = sorted(_found(folder, refused))
    if not found:
        nothing = InputError(str(folder), "holds no files", "save metrics pages or logs there")
        raise next(iter(refused), nothing)
    yield from found
    yield from refused


def _found(folder: Path, refused: list[InputError]) -> Iterator[Path]:
    num_files = num_bytes = 0
    walk = os.walk(folder, onerror=lambda error: refused.append(_closed(error)))
    for num_folders, (place, folders, names) in enumerate(walk, 1):
        if num_folders > bounds.MOST_FOLDERS:
            raise _too_much(folder, f"more than {bounds.MOST_FOLDERS} folders")
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = Path(place, name)
            if name.startswith(".") or not is_file(file):
                continue
            num_files += 1
            num_bytes += min(_size(file), bounds.NEWEST_OF_LOG)
            if num_files > bounds.MOST_FILES:
                raise _too_much(folder, f"more than {bounds.MOST_FILES} files")
            if num_bytes > bounds.MOST_OF_FOLDER:
                raise _too_much(folder, f"files of more than {bounds.MOST_OF_FOLDER >> 20} MiB")
            yield file


def _too_much(folder: Path, what: str) -> InputError:
    return InputError(
        str(folder), f"holds {what}", "name the logs and pages that are meant, or their own folder"
    )


def _size(file: Path) -> int:
    """None of what went away meanwhile: whoever opens it is told."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _closed(error: OSError) -> InputError:
    return InputError(
        str(error.filename),
        f"cannot be entered: {error.strerror or error}",
        "name files that are there and that you may read",
    )


def is_file(path: Path) -> bool:
    """False also of what may not be looked at: whoever opens it is told why."""
    try:
        return path.is_file()
    except OSError:
        return False
