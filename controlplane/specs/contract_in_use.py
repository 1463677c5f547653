"""A contract that no deployment is under promises nothing to anybody: that is said when it is
applied. One that every deployment under it pins to an earlier revision changes nothing."""

from collections.abc import Collection, Iterator, Sequence

from controlplane.specs.kind import Kind
from controlplane.specs.problem import Problem
from controlplane.specs.references import Catalog, LoadedDocument, Lookup


def warn_of_unused_contracts(
    loaded: Sequence[LoadedDocument],
    broken: Collection[tuple[Kind, str]] = (),
    catalog: Catalog | None = None,
) -> Iterator[Problem]:
    """Contracts of the input that no deployment follows. Without a catalog, nobody knows."""
    lookup = Lookup(loaded, broken, catalog)
    if not lookup.is_complete or any(kind is Kind.DEPLOYMENT for kind, _ in broken):
        return
    for item in loaded:
        if item.document.kind is Kind.SLO_CONTRACT:
            what = _unused(item.document.name, lookup)
            if what is not None:
                yield item.source.problem(("metadata", "name"), what)


def _unused(name: str, lookup: Lookup) -> str | None:
    pinned = {}
    for deployment, spec, _ in lookup.deployments():
        _, reference = spec.references().get("contract", (None, None))
        if reference is None or reference.name != name:
            continue
        if reference.number is None:
            return None
        pinned[deployment] = reference
    if pinned:
        pins = ", ".join(f"{deployment} to {pin}" for deployment, pin in pinned.items())
        return f"no deployment follows this revision: pinned are {pins} (`contract:` there)"
    return (
        f"no deployment is under this contract, and nothing is judged by it: write "
        f"`contract: {name}` into a Deployment"
    )
