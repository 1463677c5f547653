"""The runbooks that ship with Pilothouse: one page for each mechanism and for each own trouble."""

import re
from dataclasses import dataclass

from controlplane.bundled import Bundled, locate

INDEX = "README"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Runbook:
    """One page, as it is written."""

    name: str
    title: str
    body: str
    """Markdown, without the title."""


def find_runbook(name: str) -> Runbook | None:
    """The runbook called `cache-thrash`, which `cache.thrash` means as well; None for none."""
    if name != INDEX:
        name = name.replace(".", "-").replace("_", "-")
        if not _NAME.fullmatch(name):
            return None
    try:
        text = (locate(Bundled.RUNBOOKS) / f"{name}.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    head, _, body = text.partition("\n")
    return Runbook(name=name, title=head.removeprefix("#").strip(), body=body.strip())


def runbook_names() -> list[str]:
    """Of all but the index."""
    names = (path.stem for path in locate(Bundled.RUNBOOKS).glob("*.md"))
    return sorted(name for name in names if name != INDEX)


def name_of(path: str) -> str:
    """`cache-thrash` of `ops/runbooks/cache-thrash.md`."""
    return path.rpartition("/")[2].removesuffix(".md")
