"""The filter by missed objective: what every revision of every contract promised."""

from dataclasses import replace

from controlplane.api.request_query import RequestQuery
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.document import StoredDocumentError
from controlplane.specs.kind import Kind
from controlplane.store.database import Database
from controlplane.store.missed_objective import Limit, MissedObjective
from controlplane.store.revisions import Revision, list_newest
from dataplane.contract_terms import WITHOUT_BOUND, ObjectiveSignal

_MAX_REVISIONS = 100
"""The newest contracts; what was judged by an older one is not found by this filter."""


def with_limits(query: RequestQuery, config_db: Database) -> RequestQuery:
    """The same query, able to tell which requests missed the objective it asks for."""
    if query.missed is None:
        return query
    limits: tuple[Limit, ...] = ()
    if query.missed not in WITHOUT_BOUND:
        with config_db.reading() as session:
            contracts = list_newest(session, Kind.SLO_CONTRACT, _MAX_REVISIONS)
        limits = tuple(limit for each in contracts for limit in _limits(each, query.missed))
    missed = MissedObjective(signal=query.missed, limits=limits)
    return replace(query, wanted=replace(query.wanted, missed=missed))


def _limits(contract: Revision, signal: ObjectiveSignal) -> list[Limit]:
    try:
        classes = contract.spec(SLOContractSpec).classes
    except StoredDocumentError:
        return []  # of a version that promised something this one cannot read
    return [
        Limit(
            contract_revision=contract.label,
            request_class=name,
            at_most_seconds=objective.at_most,
        )
        for name, terms in classes.items()
        for objective in terms.objectives
        if objective.signal is signal and objective.at_most is not None
    ]
