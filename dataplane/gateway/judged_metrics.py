"""How requests stood to their contracts, as counters that budgets and alerts are made of.

Every promise of a snapshot has its series from the first scrape on, at zero: a series that comes
into being with the first error has no rate for it. The revision in force is a gauge of its own and
no label of the counters, which would begin anew with each.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dataplane import names
from dataplane.contract_terms import ContractTerms
from dataplane.judgement import Judgement, Verdict
from dataplane.policy import ContractPolicy, Snapshot

Scope = tuple[str, str]
"""Deployment and request class."""
_SCOPE = (names.LABEL_DEPLOYMENT, names.LABEL_REQUEST_CLASS)
_BY_OBJECTIVE = (*_SCOPE, names.LABEL_OBJECTIVE)


class JudgedMetrics:
    """Counters in `registry`. `read_snapshot` is what is enforced now."""

    def __init__(self, registry: CollectorRegistry, read_snapshot: Callable[[], Snapshot]) -> None:
        self._read_snapshot = read_snapshot
        self._begun: Snapshot | None = None
        registry.register(_Contracts(read_snapshot))
        self._judged = Counter(
            names.GATEWAY_OBJECTIVE_JUDGED_TOTAL,
            "Requests an objective applied to; `together` stands for the joint one.",
            _BY_OBJECTIVE,
            registry=registry,
        )
        self._good = Counter(
            names.GATEWAY_OBJECTIVE_GOOD_TOTAL,
            "Requests that met an objective.",
            _BY_OBJECTIVE,
            registry=registry,
        )
        self._contract_judged = Counter(
            names.GATEWAY_CONTRACT_JUDGED_TOTAL,
            "Requests that a contract applied to.",
            _SCOPE,
            registry=registry,
        )
        self._in_contract = Counter(
            names.GATEWAY_IN_CONTRACT_TOTAL,
            "Requests that met every objective that applied, together.",
            _SCOPE,
            registry=registry,
        )

    def observe(self, judgement: Judgement | None, scope: Scope) -> None:
        """Count one ended request; None where no contract was in force."""
        if judgement is None or judgement.in_contract is None:
            return
        self._contract_judged.labels(*scope).inc()
        self._in_contract.labels(*scope).inc(judgement.in_contract)
        for result in judgement.results:
            self._count(scope, result.signal.value, result.verdict)
        self._count(scope, names.TOGETHER, judgement.together)

    def begin_at_zero(self) -> None:
        """Have a series for every promise of the snapshot that is enforced."""
        snapshot = self._read_snapshot()
        if snapshot is self._begun:
            return
        for deployment in snapshot.deployments:
            contract = deployment.contract
            for request_class, terms in contract.terms_by_class.items() if contract else ():
                self._begin((deployment.name, request_class), terms)
        self._begun = snapshot

    def _begin(self, scope: Scope, terms: ContractTerms) -> None:
        # To name the labels of a counter is to have it, at zero.
        self._contract_judged.labels(*scope)
        self._in_contract.labels(*scope)
        objectives = [objective.signal.value for objective in terms.objectives]
        for name in (*objectives, names.TOGETHER):
            self._judged.labels(*scope, name)
            self._good.labels(*scope, name)

    def _count(self, scope: Scope, objective: str, verdict: Verdict) -> None:
        if verdict is not Verdict.NOT_APPLICABLE:
            self._judged.labels(*scope, objective).inc()
            self._good.labels(*scope, objective).inc(verdict is Verdict.GOOD)


class _Contracts(Collector):
    """Which revision judges the requests that arrive now, and by which thresholds."""

    def __init__(self, read_snapshot: Callable[[], Snapshot]) -> None:
        self._read_snapshot = read_snapshot

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not read a gateway that is not up yet."""
        return ()

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            names.GATEWAY_CONTRACT,
            "1 for the revision of the contract that is enforced, by deployment.",
            labels=[names.LABEL_DEPLOYMENT, names.LABEL_CONTRACT_REVISION],
        )
        under = [
            (deployment.name, deployment.contract)
            for deployment in self._read_snapshot().deployments
            if deployment.contract is not None
        ]
        for name, contract in under:
            family.add_metric([name, contract.revision], 1)
        yield family
        yield _thresholds(under)


def _thresholds(under: Sequence[tuple[str, ContractPolicy]]) -> Metric:
    family = GaugeMetricFamily(
        names.GATEWAY_OBJECTIVE_AT_MOST_SECONDS,
        "How long an objective allows, at the boundary where it is measured.",
        labels=[*_BY_OBJECTIVE, names.LABEL_BOUNDARY, names.LABEL_CONTRACT_REVISION],
    )
    for name, contract in under:
        for request_class, terms in contract.terms_by_class.items():
            for signal, seconds in _bounds(terms):
                labels = [name, request_class, signal, terms.boundary.value, contract.revision]
                family.add_metric(labels, seconds)
    return family


def _bounds(terms: ContractTerms) -> Iterator[tuple[str, float]]:
    for objective in terms.objectives:
        if objective.at_most_seconds is not None:
            yield objective.signal.value, objective.at_most_seconds
