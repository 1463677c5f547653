"""Config files as the command line names them: files, folders and standard input."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from controlplane.cli.exit_codes import ExitCode

_SUFFIXES = (".yaml", ".yml", ".json")


class ConfigFilesError(click.ClickException):
    """What the command line names holds no documents that can be read; nothing was changed."""

    exit_code = ExitCode.USAGE


def read_files(names: Iterable[str]) -> list[tuple[str, str]]:
    """(name, text) of every file; folders are searched whole, hidden ones left out.

    Raises ConfigFilesError for what cannot be read, and when nothing was found.
    """
    return [pair for name in names for pair in _read(name)]


def _read(name: str) -> Iterator[tuple[str, str]]:
    if name == "-":
        yield "<stdin>", sys.stdin.read()
        return
    path = Path(name)
    if not path.is_dir():
        yield str(path), _text(path)
        return
    found = sorted(file for file in path.rglob("*") if _is_document(file.relative_to(path)))
    if not found:
        raise ConfigFilesError(f"there are no {', '.join(_SUFFIXES)} files under {path}")
    for file in found:
        yield str(file), _text(file)


def _is_document(relative: Path) -> bool:
    is_hidden = any(part.startswith(".") for part in relative.parts)
    return relative.suffix in _SUFFIXES and not is_hidden


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigFilesError(f"{path} is not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise ConfigFilesError(f"cannot read {path}: {error.strerror}") from error
