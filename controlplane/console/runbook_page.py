"""Runbooks as pages: the same files that lie in the source tree."""

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markupsafe import Markup

from controlplane.bundled import Bundled, locate

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_INDEX = "README"
_LINK = re.compile(r'href="(?:\./)?([A-Za-z0-9-]+)\.md(#[a-z0-9-]*)?"')


@dataclass(frozen=True, slots=True)
class Runbook:
    """One page."""

    title: str
    html: Markup


def find_runbook(name: str) -> Runbook | None:
    """The runbook called so, or None. Its own text is all that becomes HTML: markup in it does
    not."""
    if name != _INDEX and not _NAME.fullmatch(name):
        return None
    path = locate(Bundled.RUNBOOKS) / f"{name}.md"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    head, _, body = text.partition("\n")
    rendered = MarkdownIt("commonmark", {"html": False}).enable("table").render(body)
    return Runbook(title=head.removeprefix("#").strip(), html=Markup(_within(rendered)))


def runbook_url(path: str | None) -> str | None:
    """Its page for `ops/runbooks/cache-thrash.md`."""
    if path is None:
        return None
    return f"/runbooks/{path.rpartition('/')[2].removesuffix('.md')}"


def _within(html: str) -> str:
    """Links from one runbook to another lead to its page."""

    def page_of(found: re.Match[str]) -> str:
        return f'href="/runbooks/{found[1]}{found[2] or ""}"'

    return _LINK.sub(page_of, html)
