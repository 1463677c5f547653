"""What the shell offers while a command is typed: kinds, names, dispositions.

Pressing Tab must never hang or print: names are asked from the control plane with a short bound,
and when it does not answer there are none.
"""

import http.client
import json
import os
import urllib.request
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from controlplane.cli.credentials import key_headers

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_TIMEOUT_SECONDS = 0.3
_MAX_BYTES = 4 * 2**20
_OTHER_RESOURCES = ("events", "gateways", "overrides", "replicas", "revisions", "rollouts")


def complete_kinds(incomplete: str) -> "list[CompletionItem]":
    """Kinds, in the plural and lower case, as they are easiest to type."""
    return _items(_kind_words(), incomplete)


def complete_resources(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Kinds and everything else that can be listed."""
    return _items([*_kind_words(), *_OTHER_RESOURCES], incomplete)


def complete_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Names of what the words before ask for."""
    what = ctx.params.get("what") or ctx.params.get("kind")
    url = ctx.params.get("url") or os.environ.get("PILOTHOUSE_URL") or _default_url()
    names = tuple(ctx.params.get("names") or ())
    if str(what).casefold().startswith("revision"):
        if not names:
            return complete_kinds(incomplete)
        what = names[0]
    return _items(_names(ctx, url, str(what or "")), incomplete)


def complete_deployments(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Names of deployments."""
    url = ctx.params.get("url") or os.environ.get("PILOTHOUSE_URL") or _default_url()
    return _items(_names(ctx, url, "Deployment"), incomplete)


def complete_incidents(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Ids of incidents that are open."""
    url = ctx.params.get("url") or os.environ.get("PILOTHOUSE_URL") or _default_url()
    rows = _ask(ctx, url, "/api/v1/incidents?state=open", "incidents")
    ids = (row.get("incident_id") for row in rows if isinstance(row, dict))
    return _items([each for each in ids if isinstance(each, str)], incomplete)


def complete_rollouts(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Numbers of the newest rollouts."""
    url = ctx.params.get("url") or os.environ.get("PILOTHOUSE_URL") or _default_url()
    rows = _ask(ctx, url, "/api/v1/rollouts?limit=50", "rollouts")
    numbers = (row.get("number") for row in rows if isinstance(row, dict))
    return _items([str(each) for each in numbers if isinstance(each, int)], incomplete)


def complete_explained(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Kinds, then their fields once one is typed."""
    from controlplane.specs.explained_kind import SPEC_BY_KIND, find_explained_kind
    from controlplane.specs.field_docs import field_docs

    word, dot, _ = incomplete.partition(".")
    if not dot:
        return _items(
            [*SPEC_BY_KIND, "metrics", "spans", "attributes", "labels", "kinds"], incomplete
        )
    kind = find_explained_kind(word)
    if kind is None:
        return []
    paths = (field.path.replace("[]", "").replace(".*", "") for field in field_docs(kind))
    return _items([f"{word}.{path}" for path in paths], incomplete)


def _names(ctx: click.Context, url: str, what: str) -> list[str]:
    folded = what.casefold()
    if folded.startswith("replica"):
        rows, key = _ask(ctx, url, "/api/v1/replicas?limit=0", "replicas"), "replica_id"
    elif folded.startswith("gateway"):
        rows, key = _ask(ctx, url, "/api/v1/gateways", "gateways"), "name"
    else:
        rows, key = _ask(ctx, url, f"/api/v1/config/{quote(what, safe='')}", None), "name"
    return [row[key] for row in rows if isinstance(row, dict) and isinstance(row.get(key), str)]


def _ask(ctx: click.Context, url: str, path: str, inside: str | None) -> list[Any]:
    """A list that the control plane answers with; empty when it does not, whatever the reason."""
    try:
        with ctx.scope(cleanup=False):
            headers = key_headers()
        request = urllib.request.Request(url.rstrip("/") + path, headers=headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            answer = json.loads(response.read(_MAX_BYTES))
    except (OSError, ValueError, http.client.HTTPException, click.ClickException):
        return []
    if inside is not None:
        answer = answer.get(inside) if isinstance(answer, dict) else None
    return answer if isinstance(answer, list) else []


def _items(words: Iterable[str], incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    # A name that a shell or a terminal would obey is not offered: it cannot be ours.
    return [
        CompletionItem(word)
        for word in sorted(set(words))
        if word.startswith(incomplete) and word.isprintable() and " " not in word
    ]


def _kind_words() -> list[str]:
    from controlplane.specs.kind import Kind, plural

    return [plural(kind).lower() for kind in Kind]


def _default_url() -> str:
    from controlplane.cli.failures import DEFAULT_URL

    return DEFAULT_URL
