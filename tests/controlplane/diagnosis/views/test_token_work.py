"""How much an engine did, by the surest measure that its page has."""

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.token_work import stretch_of, works_of
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import (
    END,
    counted_at_end,
    counter,
    fleet,
    gauge,
    same,
)


def _engine(made: Series, replica: str, steps: float | None = 20.0) -> list[Series]:
    found = [made, gauge(Signal.RUNNING, same(4), replica)]
    return found if steps is None else [*found, counter(Signal.STEPS, same(steps), replica)]


def _works(*engines: list[Series]) -> tuple[str, list[float]] | None:
    window = fleet(*(series for engine in engines for series in engine))
    return works_of([stretch_of(each[0], window, 50.0, END) for each in engines])


def test_tokens_are_taken_where_each_step_counts_them() -> None:
    assert _works(_engine(counter(Signal.GENERATION_TOKENS, same(80), "a"), "a")) == (
        "tokens",
        [80],
    )


def test_between_ends_where_answers_are_short() -> None:
    assert _works(_engine(counted_at_end(same(80), 4.0, "a"), "a")) == ("tokens", [80])


def test_steps_stand_in_for_all_where_one_ends_too_little() -> None:
    long = _engine(counted_at_end(same(80), 200.0, "a"), "a")
    short = _engine(counted_at_end(same(80), 4.0, "b"), "b", steps=10.0)
    assert _works(long, short) == ("steps times what runs", [80, 40])


def test_an_engine_without_an_end_or_steps_is_not_taken_for_idle() -> None:
    assert _works(_engine(counted_at_end(same(80), 200.0, "a"), "a", steps=None)) is None


def test_a_few_early_ends_are_no_speed_of_the_whole() -> None:
    made = counted_at_end(lambda at: 80.0 * (at < 66), 2.0, "a")
    assert _works(_engine(made, "a")) == ("steps times what runs", [80])
