"""Records of an endpoint that shows its chunks and no step."""

import dataclasses

import msgspec
import pytest

from dataplane.lifecycle import Disposition, Event, EventKind, find_event
from dataplane.record import RequestRecord
from dataplane.simulation.cost import LinearCost
from dataplane.simulation.fitting.document import Fit
from dataplane.simulation.fitting.fit import FitError, fit_records
from tests.dataplane.simulation.fitting.simulated_records import (
    MACHINE,
    OVERHEADS,
    simulated_records,
    varied_requests,
)
from tests.dataplane.simulation.fitting.simulated_spans import CHUNKED

_KNOWN = LinearCost(iteration=0.02, per_prompt_token=0.0002, per_decode_step=0.0008)
_UNSEEN = (EventKind.PREFILL_CHUNK, EventKind.PREEMPTED, EventKind.RESUMED, EventKind.RELEASED)


def _attached(record: RequestRecord) -> RequestRecord:
    """As the gateway writes it of an endpoint: scheduled is when it was submitted."""
    submitted = find_event(record.events, EventKind.ADMITTED)
    assert submitted is not None
    events = tuple(
        msgspec.structs.replace(event, at=submitted.at)
        if event.kind is EventKind.SCHEDULED
        else event
        for event in record.events
        if event.kind not in _UNSEEN
    )
    return dataclasses.replace(record, events=events)


@pytest.fixture(scope="module")
def records() -> list[RequestRecord]:
    simulated = simulated_records(
        _KNOWN, varied_requests(300, 10.0, seed=3), bounds=CHUNKED, overheads=OVERHEADS
    )
    return [_attached(record) for record in simulated]


@pytest.fixture(scope="module")
def fit(records: list[RequestRecord]) -> Fit:
    return fit_records(records, MACHINE)


def test_known_costs_are_found_in_when_the_chunks_came(fit: Fit) -> None:
    assert [knot.seconds for knot in fit.form.knots] == pytest.approx([0.02], rel=0.05)
    assert fit.form.per_prompt_token == pytest.approx(0.0002, rel=0.05)
    assert fit.form.per_decode_step == pytest.approx(0.0008, rel=0.1)
    assert [each.steps for each in fit.residuals] == ["all", "decode"]


def test_what_the_gateway_took_around_the_engine_is_measured_all_the_same(fit: Fit) -> None:
    assert fit.overheads.arrival_to_admission is not None
    assert fit.overheads.arrival_to_admission.median == pytest.approx(0.002, abs=0.001)
    assert fit.overheads.selection_to_first_write is not None
    assert fit.overheads.admission_to_idle_engine is None


def test_what_an_endpoint_does_not_show_is_listed(fit: Fit) -> None:
    assert (fit.source, fit.noise, fit.num_steps, fit.num_requests) == ("records", None, 0, 300)
    told = " ".join(fit.cannot_tell)
    for each in ("when the engine began", "never a step", "reused", "cold start"):
        assert each in told


def test_records_that_lack_something_are_counted_by_what(records: list[RequestRecord]) -> None:
    def second(event: Event) -> Event:
        return msgspec.structs.replace(event, sequence=1)

    some = [
        dataclasses.replace(records[0], disposition=Disposition.CANCELLED),
        dataclasses.replace(records[1], num_prompt_tokens=None),
        dataclasses.replace(records[2], events=tuple(map(second, records[2].events))),
        dataclasses.replace(records[3], replica_ids=("first", "second")),
        *records[4:],
    ]
    fit = fit_records(some, MACHINE)
    assert fit.num_requests == len(records) - 4
    assert [each for each in fit.cannot_tell if "passed over" in each] == [
        "rows of 1 requests whose records lack a count of tokens: they were passed over",
        "rows of 1 requests whose records lack a single attempt: they were passed over",
        "rows of 1 requests whose records lack a single sequence: they were passed over",
        "rows of 1 requests whose records lack a whole answer: they were passed over",
    ]


def test_answers_whose_chunks_came_at_once_tell_nothing_of_steps(
    records: list[RequestRecord], fit: Fit
) -> None:
    """As when the gateway was held up for seconds: the engine went on, the chunks waited."""
    held_up = [_held_up(record) for record in records[:30]]
    found = fit_records([*held_up, *records[30:]], MACHINE)
    assert found.num_requests < len(records) - 20
    assert found.form.knots[0].seconds == pytest.approx(fit.form.knots[0].seconds, rel=0.1)
    assert any("lack chunks that came one by one" in each for each in found.cannot_tell)


def _held_up(record: RequestRecord) -> RequestRecord:
    last = max(event.at for event in record.events)
    tokens = (EventKind.FIRST_TOKEN, EventKind.TOKENS)
    events = tuple(
        msgspec.structs.replace(event, at=last + number * 1e-5) if event.kind in tokens else event
        for number, event in enumerate(record.events)
    )
    return dataclasses.replace(record, events=events)


def test_records_between_which_some_are_missing_say_so(records: list[RequestRecord]) -> None:
    fit = fit_records([*records[:100], *records[110:]], MACHINE)
    [told] = [each for each in fit.cannot_tell if "missing" in each]
    assert told.startswith("steps that 10 requests may have taken part in")


def test_too_few_records_are_no_fit_and_the_remedy_is_named(records: list[RequestRecord]) -> None:
    with pytest.raises(FitError, match=r"shows no steps, and of 20 requests 20 can be used\. .*50"):
        fit_records(records[:20], MACHINE)


@pytest.mark.parametrize("num_longer", [0, 1, 49])
def test_answers_of_one_token_hold_no_step_and_are_no_fit(
    records: list[RequestRecord], num_longer: int
) -> None:
    longer = [record for record in records if (record.num_output_tokens or 0) > 1][:num_longer]
    short = [_of_one_token(record) for record in records[100:200]]
    with pytest.raises(
        FitError, match=f"requests {num_longer} can be used; 100 lack a second token"
    ):
        fit_records([*longer, *short], MACHINE)


def _of_one_token(record: RequestRecord) -> RequestRecord:
    events = tuple(event for event in record.events if event.kind is not EventKind.TOKENS)
    return dataclasses.replace(record, num_output_tokens=1, events=events)
