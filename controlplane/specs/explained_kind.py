"""The kinds of documents that can be written, those that are never applied included."""

from collections.abc import Mapping

from controlplane.specs.attribute_docs import in_one_line
from controlplane.specs.document import SPECS
from controlplane.specs.kind import SpecModel, UnknownKindError, find_kind
from controlplane.specs.scenario import SCENARIO, ScenarioSpec

SPEC_BY_KIND: Mapping[str, type[SpecModel]] = {
    **{str(kind): spec for kind, spec in SPECS.items()},
    SCENARIO: ScenarioSpec,
}
"""Every kind that can be written, those that are never applied included."""


def find_explained_kind(word: str) -> str | None:
    """The kind that a person means, those that are never applied included; None: no kind."""
    if word.casefold() == SCENARIO.casefold():
        return SCENARIO
    try:
        return find_kind(word)
    except UnknownKindError:
        return None


def doc_of_kind(kind: str) -> str:
    """What a document of this kind is."""
    return in_one_line(SPEC_BY_KIND[kind].__doc__)
