"""What a document asks for and this version does not do yet: said on every apply, never silent."""

from collections.abc import Iterator

from controlplane.specs.contract import SLOContractSpec
from controlplane.specs.kind import SpecModel
from controlplane.specs.policy import AdmissionPolicySpec
from controlplane.specs.problem import Path, Problem
from controlplane.specs.references import LoadedDocument

_WHAT = "accepted, not enforced yet"


def warn_of_unenforced(loaded: LoadedDocument) -> list[Problem]:
    """Every such field of a document, and classes that can never be reached."""
    return [loaded.source.problem(path, what) for path, what in _warnings(loaded.document.spec)]


def _warnings(spec: SpecModel) -> Iterator[tuple[Path, str]]:
    if isinstance(spec, AdmissionPolicySpec):
        yield from _policy(spec)
        yield from _unreachable(spec)
    if isinstance(spec, SLOContractSpec):
        what = "requests are judged one by one, error budgets are not computed over a window"
        yield ("spec", "window"), f"{_WHAT}: {what}"


def _policy(spec: AdmissionPolicySpec) -> Iterator[tuple[Path, str]]:
    for index, request_class in enumerate(spec.classes):
        if request_class.aging is not None:
            path: Path = ("spec", "classes", index, "aging")
            yield path, f"{_WHAT}: waiting raises no priority"
    if spec.limits.kv is not None:
        yield ("spec", "limits", "kv"), f"{_WHAT}: engines bound their own KV cache"
    for tenant in spec.tenants:
        what = f"{_WHAT}: tenants have neither weights nor token limits"
        yield ("spec", "tenants", tenant), what
    if spec.overload is not None:
        for field in sorted(spec.overload.model_fields_set):
            yield ("spec", "overload", field), f"{_WHAT}: overload only fills the queues"


def _unreachable(spec: AdmissionPolicySpec) -> Iterator[tuple[Path, str]]:
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
