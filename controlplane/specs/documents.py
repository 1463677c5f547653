"""From files to checked documents, with every problem of all of them at once."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from controlplane.specs.contract_in_use import warn_of_unused_contracts
from controlplane.specs.document import Document
from controlplane.specs.kind import Kind
from controlplane.specs.observed_contract import PagesByDeployment, check_observed
from controlplane.specs.problem import Problem
from controlplane.specs.references import Catalog, LoadedDocument, check_references
from controlplane.specs.source import Source
from controlplane.specs.validation import validate
from controlplane.specs.without_effect import warn_of_no_effect
from controlplane.specs.yaml_reader import read_yaml

__all__ = [
    "Document",
    "LoadResult",
    "ParsedDocuments",
    "Problem",
    "load_documents",
    "parse_documents",
]

DocumentCheck = Callable[[LoadedDocument], list[Problem]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What a set of files holds. With any problem, nothing of it may be applied."""

    documents: tuple[Document, ...]
    problems: tuple[Problem, ...]
    """By file and line."""
    warnings: tuple[Problem, ...]
    """What will not do what it seems to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedDocuments:
    """A set of files, read and checked in all that concerns nobody else.

    That is the slow part, and needs no database: `against` is what must be done where nothing
    else may be applied meanwhile.
    """

    loaded: tuple[LoadedDocument, ...]
    broken: frozenset[tuple[Kind, str]]
    """Documents that have problems of their own, where it can be said which ones they are."""
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    def against(
        self, catalog: Catalog | None, pages: PagesByDeployment | None = None
    ) -> LoadResult:
        """With the problems of names that neither the files nor `catalog` define, and of contracts
        that cannot be judged where they are applied: by what engines show on their `pages`, or by
        what they show unless they are configured."""
        references = check_references(list(self.loaded), set(self.broken), catalog)
        observed = check_observed(self.loaded, self.broken, catalog, pages)
        unused = warn_of_unused_contracts(self.loaded, self.broken, catalog)
        problems = [*self.problems, *references, *observed.problems]
        return LoadResult(
            documents=tuple(item.document for item in self.loaded),
            problems=tuple(sorted(problems, key=_place)),
            warnings=tuple(sorted([*self.warnings, *observed.warnings, *unused], key=_place)),
        )


def load_documents(
    files: Iterable[tuple[str, str]],
    catalog: Catalog | None = None,
    checks: Iterable[DocumentCheck] = (),
) -> LoadResult:
    """Read and check documents from (file name, text).

    `catalog` is what was applied before; without one, names that the files do not define are
    not checked. `checks` look at each document that is fine by itself.
    """
    return parse_documents(files, checks).against(catalog)


def parse_documents(
    files: Iterable[tuple[str, str]], checks: Iterable[DocumentCheck] = ()
) -> ParsedDocuments:
    """The first half of `load_documents`."""
    loaded: list[LoadedDocument] = []
    broken: set[tuple[Kind, str]] = set()
    problems: list[Problem] = []
    for file, text in files:
        sources, unreadable = read_yaml(file, text)
        problems += unreadable
        for source in sources:
            document, found = validate(source)
            problems += [problem for problem in found if not source.is_echo(problem)]
            if document is not None:
                loaded.append(LoadedDocument(document=document, source=source))
            else:
                broken |= _identity(source)
    problems += _check_unique(loaded)
    problems += [problem for check in checks for item in loaded for problem in check(item)]
    warnings = (warning for item in loaded for warning in warn_of_no_effect(item))
    return ParsedDocuments(
        loaded=tuple(loaded),
        broken=frozenset(broken),
        problems=tuple(problems),
        warnings=tuple(sorted(warnings, key=_place)),
    )


def _identity(source: Source) -> set[tuple[Kind, str]]:
    """Which document this was meant to be, if that much can be said."""
    data = source.data if isinstance(source.data, dict) else {}
    kind, metadata = data.get("kind"), data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if isinstance(kind, str) and kind in list(Kind) and isinstance(name, str):
        return {(Kind(kind), name)}
    return set()


def _check_unique(loaded: list[LoadedDocument]) -> list[Problem]:
    first: dict[tuple[Kind, str], LoadedDocument] = {}
    problems = []
    for item in loaded:
        document = item.document
        earlier = first.setdefault((document.kind, document.name), item)
        if earlier is not item:
            where = f"{earlier.source.file}:{earlier.source.start.line}"
            what = f"{document.kind} {document.name} is already defined in {where}; remove one"
            problems.append(item.source.problem(("metadata", "name"), what))
    return problems


def _place(problem: Problem) -> tuple[str, int, int]:
    return problem.file, problem.line, problem.column
