"""A file that a command is to write: where it may lie."""

import shlex
from pathlib import Path

import click

from controlplane.cli.exit_codes import ExitCode
from dataplane.atomic_file import replace_file


class MissingFolderError(click.ClickException):
    """The folder that a file is to lie in is not there; a mistyped name makes none."""

    exit_code = ExitCode.USAGE


class UnwritableFileError(click.ClickException):
    """The file could not be written; one that was there is as it was."""

    exit_code = ExitCode.USAGE


def check_folder(path: Path) -> None:
    """Raises MissingFolderError. To be asked before the work whose result goes there."""
    _require(path.parent, str(path), "a file in one that is there")


def check_folder_is_there(folder: Path) -> None:
    """As `check_folder`, of a folder that several files are to lie in."""
    _require(folder, f"into {folder}", "one that is there")


def _require(folder: Path, what: str, other: str) -> None:
    if not folder.exists():
        raise MissingFolderError(
            f"cannot write {what}: there is no folder {folder}; make it with "
            f"`mkdir -p {shlex.quote(str(folder))}`, or name {other}"
        )


def write_file(path: Path, text: str) -> None:
    """Put it in the place of what was there, whole or not at all, or into the device or pipe that
    it is. Raises UnwritableFileError."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise UnwritableFileError(f"cannot write {path}: {error.strerror}") from error
