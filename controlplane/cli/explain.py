"""`pilothouse explain`: what can be written in a document, what a name means, and why a request
went as it did."""

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.client import url_option
from controlplane.cli.completion_words import complete_explained
from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError
from controlplane.cli.options import output_option
from controlplane.cli.terminal import indented, say, say_json, table

if TYPE_CHECKING:
    from controlplane.cli.known_names import KnownName
    from controlplane.specs.field_docs import FieldDoc, VariantDoc

_ID = re.compile(r"[0-9][\w.:-]*|[0-9a-f]{4,}(?:-[0-9a-f]+)*|req[-_][\w.:-]+", re.ASCII)
_SORTS = {
    "metrics": "metric",
    "spans": "span",
    "attributes": "attribute",
    "labels": "label",
    "kinds": "kind",
}


@click.command(
    epilog=examples(
        ("pilothouse explain policy", "every field of an AdmissionPolicy, and an example"),
        ("pilothouse explain policy.classes.match", "one field"),
        ("pilothouse explain scenario.faults.retry_storm", "one fault and its fields"),
        ("pilothouse explain metrics", "every metric (also spans, attributes, labels, kinds)"),
        ("pilothouse explain pilothouse_gateway_ttft_seconds", "one metric"),
        ("pilothouse explain 3f9c12ab", "why one request went as it did"),
    )
)
@click.argument("what", metavar="KIND[.PATH]|NAME|ID", shell_complete=complete_explained)
@output_option
@url_option
def explain(what: str, output: str, url: str) -> None:
    """Explain a field of a config document, a name, or why a request went as it did.

    A field, and the name of a metric, span, attribute or label, it explains by itself: it
    describes this version of the command. ID is a request's: the control plane is asked who
    decided about it, on what, how old that was, and what would have changed it, for a refused
    request too. Its whole life is shown by `pilothouse trace ID`.
    """
    from controlplane.specs.explained_kind import find_explained_kind

    word, _, path = what.partition(".")
    kind = None if what.casefold() in _SORTS else find_explained_kind(word)
    if kind is not None:
        if output == "json":
            say_json(_field_facts(kind, path))
        else:
            say(_variant(kind, path) or _field(kind, path) if path else _kind(kind))
    elif output == "json" and _may_be_id(what):
        from controlplane.cli.explained_request import explain_request

        found = explain_request(url, what)[0]
        say_json(None if found is None else asdict(found))
    elif output == "json":
        say_json(_name_facts(what))
    elif what.casefold() in _SORTS:
        say(_all_of(_SORTS[what.casefold()]))
    elif _may_be_id(what):
        from controlplane.cli.explained_request import explain_request

        say(explain_request(url, what)[1])
    else:
        say(_name_table(_names(what)))


def _may_be_id(what: str) -> bool:
    """No kind and no name of ours begins with a digit, or is of hexadecimal digits alone."""
    return _ID.fullmatch(what) is not None


def _field_facts(kind: str, path: str) -> Any:
    """Of one field, or of every field of a kind."""
    from controlplane.specs.explained_kind import doc_of_kind
    from controlplane.specs.field_docs import field_docs

    if path:
        return asdict(_find_variant(kind, path) or _find_field(kind, path))
    fields = [asdict(field) for field in field_docs(kind)]
    return {"kind": kind, "doc": doc_of_kind(kind), "fields": fields}


def _name_facts(what: str) -> Any:
    sort = _SORTS.get(what.casefold())
    if sort is None:
        return [asdict(each) for each in _names(what)]
    if sort == "kind":
        from controlplane.specs.explained_kind import SPEC_BY_KIND, doc_of_kind

        return [{"kind": kind, "doc": doc_of_kind(kind)} for kind in SPEC_BY_KIND]
    from controlplane.cli.known_names import known_names

    return [asdict(each) for each in known_names() if each.sort == sort]


def _kind(kind: str) -> str:
    from controlplane.specs.explained_kind import doc_of_kind
    from controlplane.specs.field_docs import field_docs

    fields = field_docs(kind)
    rows = [_row(field) for field in fields]
    legend = "* must be given.  [] any item of a list, * any key of a map."
    parts = [f"{kind}: {doc_of_kind(kind)}", "", "Fields of its spec:", indented(table(rows))]
    text = "\n".join(parts) + legend
    return f"{text}\n\nExample:\n{indented(_example_document(kind))}".rstrip("\n")


def _row(field: "FieldDoc") -> tuple[str, str, str, str]:
    sign = "*" if field.is_required else ""
    default = "" if field.default in (None, {}, []) else f"default {_flow(field.default)}"
    return f"{field.path}{sign}", field.what.partition(":")[0], default, field.doc


def _field(kind: str, path: str) -> str:
    from controlplane.cli.config_output import as_yaml
    from controlplane.specs.field_docs import example_of, field_docs

    field = _find_field(kind, path)
    facts = [("Type:", field.what)]
    if field.bounds:
        facts.append(("Bounds:", field.bounds))
    facts.append(("Default:", _default(field)))
    parts = [f"{kind}.{field.path}: {field.doc}", "", table(facts)]
    meanings = [(word, doc) for word, doc in field.choices if doc]
    if meanings:
        parts += ["", "Words:", indented(table(meanings)).rstrip("\n")]
        variant = _find_variant(kind, f"{path}.{meanings[0][0]}")
        if variant is not None:
            shown = f"{kind}.{path}.{meanings[0][0]}"
            parts += ["", f"Each has fields of its own: `pilothouse explain {shown}`, and so on."]
    if field.has_fields:
        inside = [each for each in field_docs(kind) if _is_inside(each.path, field.path)]
        parts += ["", "Fields:", indented(table([_row(each) for each in inside])).rstrip("\n")]
    example = as_yaml({"spec": example_of(kind, field.path)})
    return "\n".join([*parts, "", "Example:", indented(example).rstrip("\n")])


def _variant(kind: str, path: str) -> str | None:
    """Of a group of fields that comes in several kinds, the one that the path names."""
    from controlplane.cli.config_output import as_yaml

    variant = _find_variant(kind, path)
    if variant is None:
        return None
    rows = [
        (row[0].removeprefix(f"{variant.path}."), *row[1:]) for row in map(_row, variant.fields)
    ]
    parts = [
        f"{kind}.{variant.path}: {variant.doc}",
        "",
        "Fields:",
        indented(table(rows)).rstrip("\n"),
    ]
    example = as_yaml({"spec": variant.example})
    return "\n".join([*parts, "", "Example:", indented(example).rstrip("\n")])


def _find_variant(kind: str, path: str) -> "VariantDoc | None":
    """Raises CallError, which names the fields that this one has."""
    from controlplane.specs.field_docs import UnknownFieldError, find_variant

    try:
        return find_variant(kind, path)
    except UnknownFieldError as error:
        raise CallError(str(error), ExitCode.NOT_FOUND) from error


def _find_field(kind: str, path: str) -> "FieldDoc":
    """Raises CallError, which names the fields there are."""
    from controlplane.specs.field_docs import UnknownFieldError, find_field

    try:
        return find_field(kind, path)
    except UnknownFieldError as error:
        raise CallError(str(error), ExitCode.NOT_FOUND) from error


def _is_inside(path: str, outer: str) -> bool:
    return path.startswith((f"{outer}.", f"{outer}[]."))


def _default(field: "FieldDoc") -> str:
    if field.is_required:
        return "none, it must be given"
    return "none, it may be left out" if field.default is None else _flow(field.default)


def _flow(value: Any) -> str:
    from controlplane.specs.diff import flow_text

    return flow_text(value)


def _example_document(kind: str) -> str:
    """The demo's own document, comments and all; it is applied by tests and first starts. Of a
    kind that is never applied, what it must hold."""
    from controlplane.bundled import Bundled, locate
    from controlplane.specs.scenario import SCENARIO

    if kind == SCENARIO:
        return _smallest_document(kind)

    for path in sorted(locate(Bundled.DEMO).glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if f"\nkind: {kind}\n" in f"\n{text}":
            return text
    raise FileNotFoundError(f"the demo has no {kind}: this installation is incomplete")


def _smallest_document(kind: str) -> str:
    from controlplane.cli.config_output import as_yaml
    from controlplane.specs.field_docs import example_of, field_docs
    from controlplane.specs.kind import API_VERSION

    spec: dict[str, Any] = {}
    for field in field_docs(kind):
        if field.is_required and "." not in field.path and "[" not in field.path:
            spec |= example_of(kind, field.path)
    head = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "evening"}}
    return as_yaml({**head, "spec": spec})


def _all_of(sort: str) -> str:
    if sort == "kind":
        from controlplane.specs.explained_kind import SPEC_BY_KIND, doc_of_kind

        return table([(str(kind), doc_of_kind(kind)) for kind in SPEC_BY_KIND])
    from controlplane.cli.known_names import known_names

    return _name_table([each for each in known_names() if each.sort == sort])


def _name_table(found: "Sequence[KnownName]") -> str:
    return table([(each.name, each.type or each.sort, each.doc or "-") for each in found])


def _names(word: str) -> "Sequence[KnownName]":
    """Those called so, or that begin so. Raises CallError, which names what is near."""
    from controlplane.cli.known_names import known_names
    from controlplane.specs.explained_kind import SPEC_BY_KIND
    from controlplane.specs.kind import SHORT_KINDS, nearest

    found = known_names()
    # A counter is scraped with its suffix, a histogram as three series.
    bare = word.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
    exact = [each for each in found if each.name in (word, bare)]
    if exact:
        return exact
    begun = [each for each in found if each.name.startswith(word)]
    if begun:
        return begun
    valid = [*SPEC_BY_KIND, *_SORTS, *(each.name for each in found)]
    near = nearest(
        word.partition(".")[0], [*SPEC_BY_KIND, *SHORT_KINDS.values(), *_SORTS]
    ) or nearest(word, valid)
    hint = f"; did you mean {near}?" if near else "."
    message = (
        f"nothing is called {word!r}{hint} Explained are the kinds {', '.join(SPEC_BY_KIND)} with "
        f"their fields, and {', '.join(_SORTS)}. A request is shown by `pilothouse trace ID`"
    )
    raise CallError(message, ExitCode.NOT_FOUND)
