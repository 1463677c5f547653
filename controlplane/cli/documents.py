"""Asking for config documents."""

from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.answers import RevisionAnswer
from controlplane.cli.client import convert_answer, get_json

if TYPE_CHECKING:
    from controlplane.specs.kind import Kind


def get_revision(url: str, kind: "Kind", name: str) -> tuple[RevisionAnswer, Any]:
    """One document, and the same as it was answered. `name` may pin a revision: chat@3."""
    from controlplane.specs.names import parse_reference

    try:
        reference = parse_reference(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    pinned = {} if reference.number is None else {"number": reference.number}
    answer = get_json(url, f"/api/v1/config/{kind}/{reference.name}", **pinned)
    return convert_answer(url, answer, RevisionAnswer), answer


def get_history(url: str, kind: "Kind", name: str) -> tuple[list[RevisionAnswer], Any]:
    """Every revision of a document, the newest first."""
    from controlplane.specs.names import parse_reference

    try:
        reference = parse_reference(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    answer = get_json(url, f"/api/v1/config/{kind}/{reference.name}/revisions")
    return convert_answer(url, answer, list[RevisionAnswer]), answer


def get_documents(url: str, kind: "Kind | None") -> tuple[list[RevisionAnswer], Any]:
    """The latest revision of every document, or of those of a kind."""
    answer = get_json(url, f"/api/v1/config/{kind}" if kind else "/api/v1/config")
    return convert_answer(url, answer, list[RevisionAnswer]), answer
