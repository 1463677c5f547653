"""Runbooks as pages: the same files that `pilothouse runbook` prints."""

import re

from markdown_it import MarkdownIt
from markupsafe import Markup

from controlplane.runbooks import Runbook, name_of

_LINK = re.compile(r'href="(?:\./)?([A-Za-z0-9-]+)\.md(#[a-z0-9-]*)?"')


def runbook_html(runbook: Runbook) -> Markup:
    """Its text alone becomes HTML: markup in it does not. Links to others lead to their pages."""
    rendered = MarkdownIt("commonmark", {"html": False}).enable("table").render(runbook.body)
    return Markup(_LINK.sub(lambda found: f'href="/runbooks/{found[1]}{found[2] or ""}"', rendered))


def runbook_url(path: str | None) -> str | None:
    """Its page for `ops/runbooks/cache-thrash.md`."""
    return None if path is None else f"/runbooks/{name_of(path)}"
