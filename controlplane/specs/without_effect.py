"""What a document says and can have no effect: said on every apply, never silent."""

from collections.abc import Iterator

from controlplane.slo.alert_windows import DAY, short
from controlplane.slo.alerting import thresholds
from controlplane.slo.client_reported import NO_RULES, client_reported
from controlplane.slo.prometheus.burning import RETENTION_SECONDS
from controlplane.slo.prometheus.counting import COARSE_SECONDS
from controlplane.specs.alerting import alert_terms
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.problem import Path, Problem
from controlplane.specs.references import LoadedDocument
from dataplane.contract_terms import ObjectiveSignal, is_measured_at


def warn_of_no_effect(loaded: LoadedDocument) -> list[Problem]:
    """Classes that can never be reached, objectives that nothing is judged on, and alerts that can
    never fire."""
    spec = loaded.document.spec
    found: list[tuple[Path, str]] = []
    if isinstance(spec, AdmissionPolicySpec):
        found += _left_out(spec)
    if isinstance(spec, SLOContractSpec):
        found += [*_unmeasured(spec), *_dead_alerts(spec), *_unkept_by_prometheus(spec)]
        found += _unknown_to_prometheus(spec)
    return [loaded.source.problem(path, what) for path, what in found]


def check_window(loaded: LoadedDocument, kept_days: float) -> list[Problem]:
    """A budget that nobody could tell, which is refused: over a longer time than this control plane
    keeps counts of, or a shorter one than budgets are summed up from."""
    spec = loaded.document.spec
    if not isinstance(spec, SLOContractSpec):
        return []
    found: list[tuple[Path, str]] = []
    if spec.window > kept_days * DAY:
        what = (
            f"counts are kept for {kept_days:g} days, which is less than this window: what was "
            f"spent before would be forgotten, and the budget look fuller than it is. Choose a "
            f"shorter window, or have the control plane keep them for longer (--keep-count-days)"
        )
        found.append((("spec", "window"), what))
    if spec.window < COARSE_SECONDS:
        what = (
            f"a budget is a sum of counts of {short(COARSE_SECONDS)}, which is more than this "
            f"window: choose a longer one, as 30d"
        )
        found.append((("spec", "window"), what))
    return [loaded.source.problem(path, what) for path, what in found]


def _left_out(spec: AdmissionPolicySpec) -> Iterator[tuple[Path, str]]:
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


def _unmeasured(spec: SLOContractSpec) -> Iterator[tuple[Path, str]]:
    for name, promised in spec.classes.items():
        for index, objective in enumerate(promised.objectives):
            if not is_measured_at(objective.signal, spec.boundary):
                where = ("spec", "classes", name, "objectives", index, "signal")
                yield (
                    where,
                    f"no request is judged on it: {objective.signal} is not seen at the boundary "
                    f"{spec.boundary}, where {_INSTEAD[objective.signal]} is",
                )


_INSTEAD = {
    ObjectiveSignal.MAX_ITL: ObjectiveSignal.CHUNK_GAP,
    ObjectiveSignal.CHUNK_GAP: ObjectiveSignal.MAX_ITL,
}


def _dead_alerts(spec: SLOContractSpec) -> Iterator[tuple[Path, str]]:
    terms = alert_terms(spec.alerting)
    for path, target in _targets(spec):
        for threshold in thresholds(target, spec.window, terms):
            if threshold.why_left_out is not None and not threshold.is_off:
                yield path, threshold.why_left_out


def _targets(spec: SLOContractSpec) -> Iterator[tuple[Path, float]]:
    for name, promised in spec.classes.items():
        at: Path = ("spec", "classes", name)
        for index, objective in enumerate(promised.objectives):
            yield (*at, "objectives", index, "for"), objective.target
        if promised.together is not None:
            yield (*at, "together", "for"), promised.together.target


def _unkept_by_prometheus(spec: SLOContractSpec) -> Iterator[tuple[Path, str]]:
    if spec.window > RETENTION_SECONDS:
        yield (
            ("spec", "window"),
            f"Prometheus keeps {short(RETENTION_SECONDS)} as it is shipped, which is less than "
            f"this window: it gets no record of what is left of the budget, and `pilothouse slo "
            f"status` tells it",
        )


def _unknown_to_prometheus(spec: SLOContractSpec) -> Iterator[tuple[Path, str]]:
    reported = client_reported(spec)
    for name, promised in spec.classes.items():
        for index, objective in enumerate(promised.objectives):
            if (name, objective.signal.value) in reported:
                yield ("spec", "classes", name, "objectives", index, "signal"), NO_RULES
