"""Names that one document uses and another defines: all of them must exist.

Documents are looked up in the input first, then in a catalog of what was applied before.
Without a catalog (a check on a laptop, away from the control plane) a name that the input
does not define is left for the control plane to judge.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.deployment import DeploymentSpec
from controlplane.specs.document import Document
from controlplane.specs.kind import Kind, SpecModel, nearest
from controlplane.specs.names import Reference
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.problem import Path, Problem
from controlplane.specs.source import Source
from controlplane.specs.tenant import DEFAULT_TENANT

_FALLBACK_PATH: Path = ("spec", "overload", "degrade", "fallback")


class Catalog(Protocol):
    """Documents that were applied before."""

    def names(self, kind: Kind) -> Iterable[str]:
        """Every document of `kind`."""
        ...

    def numbers(self, kind: Kind, name: str) -> Sequence[int]:
        """Its revisions, oldest first; empty when there is no such document."""
        ...

    def find_spec(self, kind: Kind, reference: Reference) -> SpecModel | None:
        """A revision's spec, or None when there is no such revision."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDocument:
    """A checked document and where it stands."""

    document: Document
    source: Source


class Lookup:
    """The input, laid over the catalog.

    `broken` are documents of the input that have problems of their own: they exist, and
    nothing more can be said about them.
    """

    def __init__(
        self,
        loaded: Sequence[LoadedDocument],
        broken: Collection[tuple[Kind, str]],
        catalog: Catalog | None,
    ) -> None:
        self.is_complete = catalog is not None
        self._broken = broken
        self._catalog = catalog
        self._loaded = {(item.document.kind, item.document.name): item for item in loaded}

    def find_loaded(self, kind: Kind, reference: Reference) -> LoadedDocument | None:
        """The input's document that a bare name means."""
        return self._loaded.get((kind, reference.name)) if reference.number is None else None

    def is_broken(self, kind: Kind, reference: Reference) -> bool:
        return reference.number is None and (kind, reference.name) in self._broken

    def find_spec(self, kind: Kind, reference: Reference) -> SpecModel | None:
        if self.is_broken(kind, reference):
            return None
        loaded = self.find_loaded(kind, reference)
        if loaded is not None:
            return loaded.document.spec
        return self._catalog.find_spec(kind, reference) if self._catalog else None

    def names(self, kind: Kind) -> set[str]:
        written = [*self._loaded, *self._broken]
        here = {name for written_kind, name in written if written_kind is kind}
        return here | set(self._catalog.names(kind) if self._catalog else ())

    def numbers(self, kind: Kind, name: str) -> Sequence[int]:
        return self._catalog.numbers(kind, name) if self._catalog else ()

    def deployments(self) -> Iterator[tuple[str, DeploymentSpec, LoadedDocument | None]]:
        """Every deployment there will be, with its document where it is in the input."""
        for name in sorted(self.names(Kind.DEPLOYMENT)):
            reference = Reference(name)
            spec = self.find_spec(Kind.DEPLOYMENT, reference)
            if isinstance(spec, DeploymentSpec):
                yield name, spec, self.find_loaded(Kind.DEPLOYMENT, reference)


def check_references(
    loaded: Sequence[LoadedDocument],
    broken: Collection[tuple[Kind, str]] = (),
    catalog: Catalog | None = None,
) -> list[Problem]:
    """Names that are used and that nobody defines."""
    lookup = Lookup(loaded, broken, catalog)
    problems: list[Problem] = []
    for item in loaded:
        if isinstance(item.document.spec, DeploymentSpec):
            problems += _check_deployment(item.source, item.document.spec, lookup)
        if isinstance(item.document.spec, AdmissionPolicySpec):
            problems += _check_tenants(item.source, item.document.spec, lookup)
            problems += _check_fallback(item.source, item.document.spec, lookup)
    for name, deployment, owner in lookup.deployments():
        problems += _check_classes(name, deployment, owner, lookup)
        problems += _check_own_fallback(name, deployment, owner, lookup)
    return problems


def _check_deployment(source: Source, spec: DeploymentSpec, lookup: Lookup) -> Iterator[Problem]:
    for field, (kind, reference) in spec.references().items():
        if not lookup.is_complete or lookup.is_broken(kind, reference):
            continue
        if lookup.find_spec(kind, reference) is None:
            yield source.problem(("spec", field), _unresolved(kind, reference, lookup))


def _unresolved(kind: Kind, reference: Reference, lookup: Lookup) -> str:
    if reference.name in lookup.names(kind):
        numbers = ", ".join(str(number) for number in lookup.numbers(kind, reference.name))
        return (
            f"{kind} {reference.name} has no revision {reference.number} yet; "
            f"revisions: {numbers or 'none'}. A bare {reference.name} means the latest"
        )
    return (
        f"there is no {kind} called {reference.name}{_instead(reference.name, lookup.names(kind))}"
    )


def _check_tenants(source: Source, spec: AdmissionPolicySpec, lookup: Lookup) -> Iterator[Problem]:
    if not lookup.is_complete:
        return
    known = lookup.names(Kind.TENANT) | {DEFAULT_TENANT}
    for tenant in spec.tenants:
        if tenant not in known:
            path: Path = ("spec", "tenants", tenant)
            what = f"there is no Tenant called {tenant}{_instead(tenant, known)}"
            yield source.problem(path, what, source.key_position(path))


def _fallback_of(spec: SpecModel | None) -> str | None:
    overload = spec.overload if isinstance(spec, AdmissionPolicySpec) else None
    return overload.degrade.fallback if overload and overload.degrade else None


def _check_fallback(source: Source, spec: AdmissionPolicySpec, lookup: Lookup) -> Iterator[Problem]:
    fallback = _fallback_of(spec)
    known = lookup.names(Kind.DEPLOYMENT)
    if fallback is not None and lookup.is_complete and fallback not in known:
        what = f"there is no Deployment called {fallback}{_instead(fallback, known)}"
        yield source.problem(_FALLBACK_PATH, what)


def _check_own_fallback(
    name: str, deployment: DeploymentSpec, owner: LoadedDocument | None, lookup: Lookup
) -> Iterator[Problem]:
    """A deployment whose policy names the deployment itself for when it is overloaded."""
    kind, reference = deployment.references()["policy"]
    if _fallback_of(lookup.find_spec(kind, reference)) != name:
        return
    what = f"deployment {name} has policy {deployment.policy}, whose overload.degrade.fallback is"
    what += f" {name} itself; name another deployment"
    policy = lookup.find_loaded(kind, reference)
    if policy is not None:
        yield policy.source.problem(_FALLBACK_PATH, what)
    elif owner is not None:
        yield owner.source.problem(("spec", "policy"), what)


def _check_classes(
    name: str, deployment: DeploymentSpec, owner: LoadedDocument | None, lookup: Lookup
) -> Iterator[Problem]:
    """Every class that the contract promises something must exist in the policy."""
    references = deployment.references()
    if "contract" not in references:
        return
    contract = lookup.find_spec(*references["contract"])
    policy = lookup.find_spec(*references["policy"])
    if not isinstance(contract, SLOContractSpec) or not isinstance(policy, AdmissionPolicySpec):
        return
    known = [request_class.name for request_class in policy.classes]
    for missing in [each for each in contract.classes if each not in known]:
        what = (
            f"deployment {name} joins contract {deployment.contract}, which promises something to "
            f"class {missing}, with policy {deployment.policy}, which has no such class"
            f"{_instead(missing, known)}"
        )
        yield from _at_cause(what, missing, references, owner, lookup)


def _at_cause(
    what: str,
    missing: str,
    references: dict[str, tuple[Kind, Reference]],
    owner: LoadedDocument | None,
    lookup: Lookup,
) -> Iterator[Problem]:
    """Report at the document of the input that brought the two apart."""
    contract = lookup.find_loaded(*references["contract"])
    policy = lookup.find_loaded(*references["policy"])
    if contract is not None:
        path: Path = ("spec", "classes", missing)
        yield contract.source.problem(path, what, contract.source.key_position(path))
    elif policy is not None:
        yield policy.source.problem(("spec", "classes"), what)
    elif owner is not None:
        yield owner.source.problem(("spec", "contract"), what)


def _instead(word: str, valid: Iterable[str]) -> str:
    words = sorted(valid)
    near = nearest(word, words)
    hint = f"; did you mean {near}?" if near else "."
    return f"{hint} There is: {', '.join(words[:20])}" if words else "; there is none at all"
