"""One document as it stands in a file: plain JSON data, and where each part of it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.specs.problem import Path, Position, Problem, format_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A document's data with the place of every key and value."""

    file: str
    start: Position
    data: Any
    """JSON types only."""
    keys: Mapping[Path, Position]
    """Where the key of the value at a path is."""
    values: Mapping[Path, Position]
    texts: Mapping[Path, Position]
    """Where the text of a scalar begins that stands in the file exactly as it reads."""
    unreadable: frozenset[str] = frozenset()
    """Keys of values that could not be read, and are None here."""

    def is_echo(self, problem: Problem) -> bool:
        """Whether a problem only says again that a value, or one inside it, was unreadable."""
        inside = (f"{problem.key}.", f"{problem.key}[")
        return any(key == problem.key or key.startswith(inside) for key in self.unreadable)

    def problem(self, path: Path, message: str, at: Position | None = None) -> Problem:
        """A problem with the value at `path`, or with its nearest ancestor that was written."""
        position = at or self.position(path)
        return Problem(
            file=self.file,
            line=position.line,
            column=position.column,
            key=format_path(path),
            message=message,
        )

    def problem_in_text(self, path: Path, message: str, line: int, column: int) -> Problem:
        """A problem inside the text at `path`, at a line and column of that text."""
        text = self.texts.get(path)
        if text is None or line != 1:
            return self.problem(path, f"{message} (line {line}, column {column} of the text)")
        return self.problem(path, message, Position(text.line, text.column + column - 1))

    def position(self, path: Path) -> Position:
        """Where the value at `path` is, or its nearest ancestor that was written."""
        while path:
            found = self.values.get(path) or self.keys.get(path)
            if found:
                return found
            path = path[:-1]
        return self.start

    def key_position(self, path: Path) -> Position:
        """Where the key of the value at `path` is."""
        return self.keys.get(path) or self.position(path)
