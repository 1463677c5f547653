"""What a document asks for and this version does not do yet: said on every apply, never silent."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from controlplane.specs.kind import Kind, SpecModel
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.problem import Path, Problem
from controlplane.specs.references import LoadedDocument

_WHAT = "accepted, not enforced yet"

# Field -> what happens instead. [] stands for every item of a list, * for every key of a map.
UNENFORCED: Mapping[Kind, Mapping[str, str]] = {
    Kind.SLO_CONTRACT: {
        "window": "requests are judged one by one, error budgets are not computed over a window",
    },
}


def warn_of_unenforced(loaded: LoadedDocument) -> list[Problem]:
    """Every such field of a document, and classes that can never be reached."""
    document = loaded.document
    warnings = list(_unenforced(document.spec, UNENFORCED.get(document.kind, {})))
    if isinstance(document.spec, AdmissionPolicySpec):
        warnings += _unreachable(document.spec)
    return [loaded.source.problem(path, what) for path, what in warnings]


def _unenforced(spec: SpecModel, fields: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for field, instead in fields.items():
        parts = field.replace("[]", ".[]").split(".")
        for path in _written(spec, parts, ("spec",)):
            yield path, f"{_WHAT}: {instead}"


def _written(value: Any, parts: Sequence[str], path: Path) -> Iterator[Path]:
    """Where a field was written: its pattern may meet several places, or none."""
    if not parts:
        yield path
        return
    first, rest = parts[0], parts[1:]
    if first == "[]":
        items: Iterable[tuple[str | int, Any]] = enumerate(value)
    elif first == "*":
        items = value.items()
    else:
        given = getattr(value, first, None)
        is_written = first in value.model_fields_set and given is not None
        items = [(first, given)] if is_written else []
    for key, inner in items:
        yield from _written(inner, rest, (*path, key))


def _unreachable(spec: AdmissionPolicySpec) -> Iterator[tuple[Path, str]]:
    catch_all = next((c.name for c in spec.classes if c.match is None), None)
    if catch_all is None:
        yield (
            ("spec", "classes"),
            "no class takes everything: a request that none matches is rejected",
        )
    names = [request_class.name for request_class in spec.classes]
    for index, name in enumerate(names):
        if catch_all is not None and index > names.index(catch_all):
            what = f"no request reaches class {name}: {catch_all} before it takes everything"
            yield ("spec", "classes", index), what
