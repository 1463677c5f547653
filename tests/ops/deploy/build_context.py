"""What a builder of images sees of a folder, and what a Containerfile's COPY lines make of it."""

import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Copy:
    """One COPY line: paths within the context, and where they go within the image."""

    sources: tuple[str, ...]
    target: str


class IgnoreFile:
    """A .dockerignore: patterns from the context's root; the last one that matches decides."""

    def __init__(self, lines: Iterable[str]) -> None:
        stated = [line.strip() for line in lines]
        patterns = [line for line in stated if line and not line.startswith("#")]
        self._rules = [
            (line.startswith("!"), _regex(line.lstrip("!").strip("/"))) for line in patterns
        ]

    def hides(self, path: Path) -> bool:
        """Whether `path`, relative to the context, is kept from the builder."""
        # A pattern that matches a folder matches all that is in it.
        ways = [path.as_posix(), *(each.as_posix() for each in path.parents[:-1])]
        matching = [
            is_exception
            for is_exception, regex in self._rules
            if any(regex.fullmatch(way) for way in ways)
        ]
        return bool(matching) and not matching[-1]


def copies_before(containerfile: str, command: str) -> list[Copy]:
    """The COPY lines of the first stage that come before the RUN line with `command` in it."""
    stage = containerfile.split("\nFROM ")[1]
    before, found, _ = stage.partition(command)
    assert found, f"no line of the first stage says {command}"
    lines = re.findall(r"^COPY (.+)$", before, re.M)
    words = [shlex.split(line) for line in lines]
    return [Copy(tuple(sources), target) for *sources, target in words]


def replay(copies: Sequence[Copy], context: Path, ignored: IgnoreFile, folder: Path) -> None:
    """Do the same from `context` into `folder`. Raises FileNotFoundError as a builder would."""
    for copy in copies:
        for source in copy.sources:
            path = context / source
            target = folder / copy.target
            if path.is_file():
                target = target / path.name if copy.target.endswith("/") else target
            seen = [each for each in _files(path) if not ignored.hides(each.relative_to(context))]
            if not seen:
                raise FileNotFoundError(f"COPY {source}: there is no such thing in the context")
            for each in seen:
                goal = target / each.relative_to(path) if path.is_dir() else target
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(each, goal)


def _files(path: Path) -> Iterator[Path]:
    return (each for each in [path, *path.rglob("*")] if each.is_file())


def _regex(pattern: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(piece, re.escape(piece)) for piece in pieces))
