"""A contract of a deployment that is only observed: what its engine's metrics cannot judge is said
when it is applied, and a threshold that nobody could count is refused.

Edges are those that the page of a running engine showed, which the control plane knows alone, and
otherwise those that the engine has unless it is configured.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controlplane.slo.engine_histograms import EngineView, view_by_engine
from controlplane.slo.promised import Promise, promises_of
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.deployment import DeploymentSpec
from controlplane.specs.engine_config import EngineConfigSpec
from controlplane.specs.kind import Kind
from controlplane.specs.problem import Path, Problem
from controlplane.specs.references import Catalog, LoadedDocument, Lookup
from dataplane.engine_metrics.bucket_edges import EdgesByName

PagesByDeployment = Mapping[str, EdgesByName]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCheck:
    """Of all deployments that are only observed."""

    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def check_observed(
    loaded: Sequence[LoadedDocument],
    broken: Collection[tuple[Kind, str]] = (),
    catalog: Catalog | None = None,
    pages: PagesByDeployment | None = None,
) -> ObservedCheck:
    """Only what a document of the input brings about: the contract, the deployment or its engine's
    config. `pages`: the histograms that engines were seen to export, by deployment."""
    lookup = Lookup(loaded, broken, catalog)
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for name, deployment, owner in lookup.deployments():
        view = _view(name, deployment, lookup, (pages or {}).get(name))
        at = None if view is None else _cause(deployment, owner, lookup)
        if view is None or at is None:
            continue
        for promise, why, is_refused in _told(view):
            what = f"deployment {name}, which is only observed: {promise.name}: {why}"
            found = at.source.problem(_path(at, promise), what)
            (problems if is_refused else warnings).append(found)
    return ObservedCheck(problems=tuple(problems), warnings=tuple(warnings))


def _view(
    name: str, deployment: DeploymentSpec, lookup: Lookup, page: EdgesByName | None
) -> EngineView | None:
    references = deployment.references()
    if not deployment.observe_only or "contract" not in references:
        return None
    contract = lookup.find_spec(*references["contract"])
    engine = lookup.find_spec(*references["engine"])
    if not isinstance(contract, SLOContractSpec) or not isinstance(engine, EngineConfigSpec):
        return None
    promises = list(promises_of(name, references["contract"][1].name, contract))
    return view_by_engine(promises, contract.boundary, engine.engine, page)


def _cause(
    deployment: DeploymentSpec, owner: LoadedDocument | None, lookup: Lookup
) -> LoadedDocument | None:
    """The document of the input that the trouble is told at; None: it is none of theirs."""
    references = deployment.references()
    contract = lookup.find_loaded(*references["contract"])
    return contract or owner or lookup.find_loaded(*references["engine"])


def _path(cause: LoadedDocument, promise: Promise) -> Path:
    spec = cause.document.spec
    if isinstance(spec, DeploymentSpec):
        return ("spec", "contract")
    if not isinstance(spec, SLOContractSpec):
        return ("spec", "engine")
    at: Path = ("spec", "classes", promise.request_class)
    objectives = spec.classes[promise.request_class].objectives
    for index, objective in enumerate(objectives):
        if objective.signal.value == promise.objective:
            return (*at, "objectives", index)
    return (*at, "together")


def _told(view: EngineView) -> Iterator[tuple[Promise, str, bool]]:
    for promise, why in view.rescaled:
        yield promise, why, False
    for each in view.unjudged:
        yield each.promise, each.why, each.is_refused
