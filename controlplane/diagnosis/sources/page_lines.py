"""Lines of metrics pages, within bounds: nothing is held of what is no page, whatever its size."""

from collections.abc import Iterable, Iterator

from controlplane.diagnosis.sources import bounds
from controlplane.diagnosis.sources.input_error import InputError

_REMEDY = "save the pages of the minutes that are meant by themselves, and give those"


def bounded(lines: Iterable[str], place: str) -> Iterator[str]:
    """`lines`, as long as a file of pages may be. Raises InputError for one that is longer, or that
    says the same thing again and again."""
    num_characters = 0
    first, num_scrapes = "", 0
    for line in lines:
        num_characters += len(line) + 1
        if num_characters > bounds.MOST_OF_PAGES:
            raise InputError(
                place, f"has more than {_mib(bounds.MOST_OF_PAGES)} of metrics pages", _REMEDY
            )
        if line[:1] != "#" and not line.isspace() and line:
            head = series_of_line(line)
            first = first or head
            num_scrapes += head == first
        if num_scrapes > bounds.MOST_SCRAPES:
            raise InputError(
                place,
                f"says {first[:80]} more than {bounds.MOST_SCRAPES} times, which is more scrapes "
                "than are read of one file",
                _REMEDY,
            )
        yield line


def refuse_long(page: str, place: str) -> None:
    """By file as by URL. Raises InputError."""
    if len(page) > bounds.MOST_OF_PAGE:
        raise InputError(
            place,
            f"holds a metrics page of more than {_mib(bounds.MOST_OF_PAGE)}, as no engine answers",
            "save what the engine's own /metrics says, without what was put together with it",
        )


def series_of_line(line: str) -> str:
    """Name and labels."""
    return line[: line.rfind("}") + 1] or line.partition(" ")[0]


def _mib(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} characters"
