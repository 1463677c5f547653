"""What can be listed and described besides config documents."""

from enum import StrEnum
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from controlplane.specs.kind import Kind


class Resource(StrEnum):
    """What runs and what happened; documents are kinds (controlplane.specs.kind)."""

    REPLICAS = "replicas"
    GATEWAYS = "gateways"
    REVISIONS = "revisions"
    EVENTS = "events"
    OVERRIDES = "overrides"
    ROLLOUTS = "rollouts"


# What somebody may look for here, and the command that shows it.
_ELSEWHERE = {
    "request": "pilothouse requests",
    "trace": "pilothouse trace ID",
    "plugin": "pilothouse plugins",
    "metric": "pilothouse explain metrics",
}


def find_resource(word: str) -> "Resource | Kind":
    """What a person means: any case, singular or plural. Raises click.UsageError, which lists
    what there is."""
    from controlplane.specs.kind import Kind, UnknownKindError, find_kind, nearest, plural

    folded = word.casefold().removesuffix("s")
    for resource in Resource:
        if folded == resource.removesuffix("s"):
            return resource
    try:
        return find_kind(word)
    except UnknownKindError:
        pass
    if folded in _ELSEWHERE:
        raise click.UsageError(f"{word} are shown by `{_ELSEWHERE[folded]}`")
    valid = [*(plural(kind) for kind in Kind), *Resource]
    near = nearest(word, [*Kind, *valid])
    hint = f"; did you mean {near}?" if near else "."
    raise click.UsageError(f"there is nothing called {word!r}{hint} There are {', '.join(valid)}")
