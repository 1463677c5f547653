"""Asking for config documents."""

from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.answers import RevisionAnswer
from controlplane.cli.client import convert_answer, get_json

if TYPE_CHECKING:
    from controlplane.specs.kind import Kind
    from controlplane.specs.names import Reference


def get_revision(url: str, kind: "Kind", name: str) -> tuple[RevisionAnswer, Any]:
    """One document, and the same as it was answered. `name` may pin a revision: chat@3."""
    reference = _parse(name)
    pinned = {} if reference.number is None else {"number": reference.number}
    answer = get_json(url, f"/api/v1/config/{kind}/{reference.name}", **pinned)
    return convert_answer(url, answer, RevisionAnswer), answer


def get_history(url: str, kind: "Kind", name: str) -> tuple[list[RevisionAnswer], Any]:
    """Every revision of a document, the newest first."""
    answer = get_json(url, f"/api/v1/config/{kind}/{_parse(name).name}/revisions")
    return convert_answer(url, answer, list[RevisionAnswer]), answer


def get_documents(url: str, kind: "Kind | None") -> tuple[list[RevisionAnswer], Any]:
    """The latest revision of every document, or of those of a kind."""
    answer = get_json(url, f"/api/v1/config/{kind}" if kind else "/api/v1/config")
    return convert_answer(url, answer, list[RevisionAnswer]), answer


def _parse(name: str) -> "Reference":
    from controlplane.specs.names import parse_reference

    try:
        return parse_reference(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
