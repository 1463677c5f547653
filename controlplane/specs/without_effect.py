"""What a document says and can have no effect: said on every apply, never silent."""

from collections.abc import Iterator

from controlplane.slo.alerting import left_out
from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.problem import Path, Problem
from controlplane.specs.references import LoadedDocument


def warn_of_no_effect(loaded: LoadedDocument) -> list[Problem]:
    """Classes that can never be reached, and alerts that can never fire."""
    spec = loaded.document.spec
    found: list[tuple[Path, str]] = []
    if isinstance(spec, AdmissionPolicySpec):
        found += _left_out(spec)
    if isinstance(spec, SLOContractSpec):
        found += _dead_alerts(spec)
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


def _dead_alerts(spec: SLOContractSpec) -> Iterator[tuple[Path, str]]:
    for name, promised in spec.classes.items():
        at: Path = ("spec", "classes", name)
        for index, objective in enumerate(promised.objectives):
            for sentence in left_out(objective.target, spec.window):
                yield (*at, "objectives", index, "for"), sentence
        if promised.together is not None:
            for sentence in left_out(promised.together.target, spec.window):
                yield (*at, "together", "for"), sentence
