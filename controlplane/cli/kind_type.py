"""A config kind as an argument of a command."""

from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.completion_words import complete_kinds

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from controlplane.specs.kind import Kind


class KindType(click.ParamType["Kind"]):
    """A kind as people write it: any case, singular or plural."""

    name = "kind"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Kind":
        """The kind that is meant; the message lists all when none is."""
        from controlplane.specs.kind import UnknownKindError, find_kind

        try:
            return find_kind(str(value))
        except UnknownKindError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        """Every kind that begins so."""
        return complete_kinds(incomplete)
