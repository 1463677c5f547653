"""How long a start takes is told by those that are most alike, or not at all."""

from dataclasses import replace

from controlplane.rollouts.change_plan.start_times import PastStart, start_times
from tests.controlplane.rollouts.change_plan.test_turnover import TEMPLATE


def past(seconds: float, digest: str = "other", **spec: str) -> PastStart:
    return PastStart(spec=replace(TEMPLATE, **spec), digest=digest, seconds=seconds)  # type: ignore[arg-type]


def test_the_same_spec_comes_before_any_other() -> None:
    found = start_times([past(9.0), past(1.0, "same"), past(3.0, "same")], TEMPLATE, "same")

    assert found is not None
    assert (found.num_starts, found.median, found.longest) == (2, 2.0, 3.0)


def test_then_the_same_model_then_the_same_engine() -> None:
    other_model = past(9.0, artifact="/other")

    model = start_times([other_model, past(4.0)], TEMPLATE, "same")
    engine = start_times([other_model], TEMPLATE, "same")

    assert model is not None
    assert engine is not None
    assert (model.median, engine.median) == (4.0, 9.0)
    assert model.basis != engine.basis


def test_another_engine_tells_nothing() -> None:
    assert start_times([past(1.0, engine="vllm")], TEMPLATE, "same") is None
