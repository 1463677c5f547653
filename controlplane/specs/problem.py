"""What is wrong with config documents, and exactly where."""

from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Where a value is inside a document: keys and indexes from its top."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file; both count from 1, as editors do."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, or (as a warning) that will not do what it seems to."""

    file: str
    line: int
    column: int
    key: str
    """Such as spec.classes[0].match; empty where no key is concerned."""
    message: str
    """What is wrong, and what to write instead."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}"
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


def format_path(path: Path) -> str:
    """`("spec", "classes", 0, "match")` -> `spec.classes[0].match`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
