"""Objectives of deployments that are only observed: their engines' own metrics are all there is."""

from collections.abc import Sequence
from dataclasses import replace

from starlette.datastructures import State

from controlplane.api.slo_views import StandingView
from controlplane.operator.observed import ObservedState
from controlplane.slo.engine_histograms import EngineView, shared_edges, view_by_engine
from controlplane.slo.promised import Promise, promises_of
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.engine_config import EngineConfigSpec
from controlplane.store.deployments import DesiredDeployment
from dataplane.engine_metrics.bucket_edges import EdgesByName

COUNTED_ELSEWHERE = (
    "no data here: no request of it passes through Pilothouse; Prometheus counts it by the rules "
    "of `pilothouse slo render`"
)


def engine_view(state: State, desired: DesiredDeployment) -> EngineView | None:
    """What of its contract its engine can judge, by the pages that were seen last; None where
    requests pass through gateways, or nothing is promised."""
    contract = desired.revisions.contract
    if contract is None or not desired.spec.observe_only:
        return None
    spec = contract.spec(SLOContractSpec)
    return view_by_engine(
        list(promises_of(desired.name, contract.label, spec)),
        spec.boundary,
        desired.revisions.engine_config.spec(EngineConfigSpec).engine,
        seen_pages(state.observed).get(desired.name),
    )


def seen_pages(observed: ObservedState) -> dict[str, EdgesByName]:
    """What the engines of deployments that are only observed showed last, by deployment."""
    pages: dict[str, list[EdgesByName]] = {}
    for replica in observed.replicas():
        if replica.look is not None and replica.look.latency_edges:
            pages.setdefault(replica.deployment, []).append(replica.look.latency_edges)
    return {name: shared_edges(found) for name, found in pages.items()}


def with_engine_notes(
    state: State, found: Sequence[DesiredDeployment], standings: Sequence[StandingView]
) -> list[StandingView]:
    """Each standing of a deployment that is only observed says who counts it, or why nobody can."""
    why: dict[tuple[str, str, str], list[str]] = {}
    for desired in found:
        view = engine_view(state, desired)
        if view is not None:
            why |= _reasons(view)
    return [
        replace(each, notes=reasons) if (reasons := why.get(_key(each))) else each
        for each in standings
    ]


def _reasons(view: EngineView) -> dict[tuple[str, str, str], list[str]]:
    counted = {_key(each.promise): [COUNTED_ELSEWHERE] for each in view.objectives}
    for promise, sentence in view.rescaled:
        counted[_key(promise)].append(sentence)
    return counted | {_key(each.promise): [each.why] for each in view.unjudged}


def _key(of: Promise | StandingView) -> tuple[str, str, str]:
    return of.deployment, of.request_class, of.objective
