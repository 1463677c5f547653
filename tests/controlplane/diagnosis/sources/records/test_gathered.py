"""Records of requests become courses, latencies and facts with times of their own; what they do
not say is left out."""

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

import pytest

from controlplane.api.request_views import summarize
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.sources.files import InputError, read_inputs
from controlplane.diagnosis.sources.records import gathered
from controlplane.diagnosis.sources.records.ended_request import refusal_of
from controlplane.diagnosis.window import DoubtKind, EngineName, Window
from controlplane.store.request_rows import compact_row
from controlplane.store.request_tables import RequestRow
from dataplane.admission.load_signals import QueueLoad
from dataplane.engine_metrics.signal import Signal
from dataplane.record import RequestRecord, encode_record
from ops.sample_requests import KINDS, answered, inferred, lost, rejected
from ops.sample_story import Sample
from tests.dataplane.admission.test_admit import TERMS, per_second, rejection, waiting

EIGHT = 1796025600
"""2026-11-30T08:00:00Z"""
TOOK = 0.018 + 0.025 + 169 * 0.03 + 0.003
"""Each that is answered, as they are sent here."""


def sent(
    number: int,
    every: float = 1.0,
    kind: Callable[[Sample], RequestRecord] = answered,
    first: int = 0,
    tokens: float = 0.03,
) -> list[RequestRecord]:
    """One every so many seconds."""
    return [
        kind(
            Sample(
                sequence=first + place,
                arrived_at_unix_ns=EIGHT * 10**9 + round(place * every * 1e9),
                token_seconds=tokens,
                num_output_tokens=170,
            )
        )
        for place in range(number)
    ]


def whole(records: Iterable[RequestRecord]) -> bytes:
    """As `pilothouse simulate --records` and gateways write them."""
    return b"".join(encode_record(record) + b"\n" for record in records)


def listed(records: Iterable[RequestRecord]) -> bytes:
    """As `pilothouse requests --all -o json` does, the newest first."""
    lines = [json.dumps(asdict(summarize(_row(record)))) for record in records]
    return "".join(f"{line}\n" for line in reversed(lines)).encode()


def _row(record: RequestRecord) -> RequestRow:
    row = compact_row(record)
    counted = row.pop("num_output_tokens")
    return RequestRow(**row, counted_output_tokens=counted)


def saved(folder: Path, content: bytes, name: str = "records.jsonl") -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


def found(window: Window, signal: Signal, **labels: str) -> Series:
    series = window.find(signal, **labels)
    assert series is not None, signal
    return series


FORMS = pytest.mark.parametrize("form", [whole, listed])


@FORMS
def test_courses_carry_unit_source_time_and_age(
    form: Callable[[Iterable[RequestRecord]], bytes], tmp_path: Path
) -> None:
    name = saved(tmp_path, form(sent(60)))
    window = read_inputs([name])
    last = EIGHT + 59 + TOOK
    assert (window.start, round(window.end, 2)) == (EIGHT, round(last, 2))
    in_flight = found(window, Signal.GATEWAY_IN_FLIGHT)
    assert (in_flight.origin.kind, in_flight.origin.place) == (SourceKind.RECORDS, name)
    assert in_flight.at(EIGHT + 20.5) is not None
    assert {reading.value for reading in in_flight.readings[8:]} <= {5.0, 6.0}
    assert window.age_seconds(in_flight.last) == pytest.approx(TOOK, abs=0.01)


@FORMS
def test_what_was_still_under_way_when_the_file_was_written_is_no_end_of_traffic(
    form: Callable[[Iterable[RequestRecord]], bytes], tmp_path: Path
) -> None:
    window = read_inputs([saved(tmp_path, form(sent(60)))])
    assert found(window, Signal.GATEWAY_IN_FLIGHT).last.value >= 5
    assert found(window, Signal.GATEWAY_ARRIVED).last.value >= 59


@FORMS
def test_both_forms_tell_the_same(
    form: Callable[[Iterable[RequestRecord]], bytes], tmp_path: Path
) -> None:
    records = [*sent(60), *sent(6, 9.0, rejected, 60)]
    window = read_inputs([saved(tmp_path, form(records))])
    assert found(window, Signal.GATEWAY_ENDED, disposition="rejected").increase == 6
    assert found(window, Signal.GATEWAY_REJECTED).increase == 6
    assert found(window, Signal.GATEWAY_ARRIVED).increase == pytest.approx(66, abs=1)
    assert found(window, Signal.RUNNING).last.value in (5, 6)
    tokens = found(window, Signal.GATEWAY_OUTPUT_TOKENS).increase
    answers = found(window, Signal.FINISHED).increase
    assert tokens is not None
    assert answers is not None
    assert tokens == 170 * answers
    queue = window.find_histogram(Signal.GATEWAY_QUEUE_TIME)
    assert queue is not None
    assert queue.observed.count == 60, "of those that were refused there is none"
    assert queue.mean == pytest.approx(0.018, rel=0.01)


@pytest.mark.parametrize(
    "load", [waiting(chat=8), waiting(chat=7, drain=per_second(0.5))], ids=["full", "late"]
)
def test_the_words_of_a_bound_of_the_queue_are_known_again(load: QueueLoad) -> None:
    refused = rejection(TERMS, load)
    assert refusal_of(refused.reason) == refused.kind
    assert refusal_of("tenant acme has used its tokens of this minute") is None


@FORMS
def test_the_engine_is_the_one_that_records_name(
    form: Callable[[Iterable[RequestRecord]], bytes], tmp_path: Path
) -> None:
    def named(*engines: str) -> EngineName | None:
        records = sent(20)
        some = [
            replace(each, engine=engines[place % len(engines)])
            for place, each in enumerate(records)
        ]
        return read_inputs([saved(tmp_path, form(some))]).engine

    assert named("llamacpp") == EngineName(name="llama.cpp")
    assert named("openai") is None
    assert named("llamacpp", "vllm") is None


def test_refusals_are_told_by_the_limit_that_refused_them(tmp_path: Path) -> None:
    window = read_inputs([saved(tmp_path, whole([*sent(60), *sent(6, 9.0, rejected, 60)]))])
    assert {s.labels["reason"] for s in window.all_series(Signal.GATEWAY_REJECTED)} == {
        "queue_full"
    }


def test_what_an_engine_works_on_is_not_told_where_it_does_not_show_it(tmp_path: Path) -> None:
    records = [replace(each, deployment="chat") for each in sent(60, kind=inferred)]
    window = read_inputs([saved(tmp_path, whole(records))])
    assert window.find(Signal.RUNNING) is None
    assert window.find(Signal.GATEWAY_IN_FLIGHT) is not None


def test_requests_whose_end_nobody_saw_are_in_no_course_of_those_in_flight(tmp_path: Path) -> None:
    window = read_inputs([saved(tmp_path, whole([*sent(60), *sent(6, 9.0, lost, 60)]))])
    assert window.find(Signal.GATEWAY_IN_FLIGHT) is None
    assert found(window, Signal.GATEWAY_ARRIVED).increase == pytest.approx(66, abs=1)
    assert window.doubts_of(DoubtKind.UNREADABLE)


def test_what_no_record_says_has_no_series(tmp_path: Path) -> None:
    records = [replace(each, num_cached_tokens=None) for each in sent(60)]
    window = read_inputs([saved(tmp_path, whole(records))])
    assert window.find(Signal.GATEWAY_CACHED_TOKENS) is None


def test_metrics_and_a_log_of_the_engine_go_before_what_records_say_of_it(tmp_path: Path) -> None:
    page = tmp_path / f"m-{EIGHT + 30}.prom"
    page.write_text("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 17\n")
    log = saved(
        tmp_path,
        b"2026-11-30T08:00:40Z INFO metrics.py:449] Avg prompt throughput: 1.0 tokens/s, "
        b"Avg generation throughput: 9.0 tokens/s, Running: 17 reqs, Waiting: 0 reqs\n",
        "engine.log",
    )
    window = read_inputs([str(page), saved(tmp_path, whole(sent(60))), log])
    assert found(window, Signal.RUNNING).origin.kind is not SourceKind.RECORDS
    assert found(window, Signal.GATEWAY_IN_FLIGHT).origin.kind is SourceKind.RECORDS
    assert found(window, Signal.GENERATION_RATE).last.at == EIGHT + 40
    assert window.start == EIGHT


def test_several_files_are_one_set_in_which_each_request_counts_once(tmp_path: Path) -> None:
    records = sent(60)
    one = saved(tmp_path, whole(records[:40]), "one.records")
    other = saved(tmp_path, whole(records[20:]), "other.records")
    window = read_inputs([one, other])
    assert found(window, Signal.GATEWAY_ARRIVED).increase == pytest.approx(60, abs=1)
    assert found(window, Signal.GATEWAY_ARRIVED).origin.place == "2 files"


def test_records_come_from_standard_input_and_from_folders_too(tmp_path: Path) -> None:
    content = whole(sent(60))
    saved(tmp_path, content)
    for window in (read_inputs(["-"], io.BytesIO(content)), read_inputs([str(tmp_path)])):
        assert found(window, Signal.GATEWAY_ARRIVED).increase == pytest.approx(60, abs=1)


def test_of_several_deployments_one_is_to_be_named(tmp_path: Path) -> None:
    others = [replace(each, deployment="code") for each in sent(30, first=60)]
    name = saved(tmp_path, whole([*sent(60), *others]))
    with pytest.raises(InputError, match=r"chat \(60\), code \(30\).*--deployment"):
        read_inputs([name])
    window = read_inputs([name], deployment="code")
    assert found(window, Signal.GATEWAY_ARRIVED).increase == pytest.approx(30, abs=1)
    assert not window.doubts_of(DoubtKind.UNREADABLE), "those of the other one are there"
    with pytest.raises(InputError, match="no request of search"):
        read_inputs([name], deployment="search")


def test_a_deployment_cannot_be_chosen_among_what_has_none(tmp_path: Path) -> None:
    page = saved(tmp_path, b"vllm:num_requests_running 3\n", "m.prom")
    with pytest.raises(InputError, match="--deployment chooses among those"):
        read_inputs([page], deployment="chat")


def test_numbers_that_are_missing_are_told(tmp_path: Path) -> None:
    window = read_inputs([saved(tmp_path, whole(sent(60)[::2]))])
    [doubt] = window.doubts_of(DoubtKind.UNREADABLE)
    assert "lacks 29" in doubt.what
    assert window.find(Signal.GATEWAY_IN_FLIGHT) is not None


@pytest.mark.parametrize("chosen", ["rejected", "out of contract"])
def test_of_what_was_chosen_by_how_it_ended_no_share_is_told(chosen: str, tmp_path: Path) -> None:
    if chosen == "rejected":
        records = [each for n, each in enumerate(sent(60, kind=rejected)) if n % 3]
    else:
        slow = [each for each in sent(60, tokens=0.05) if each.judgement is not None]
        assert not any(each.judgement and each.judgement.in_contract for each in slow)
        records = slow[::2]
    window = read_inputs([saved(tmp_path, whole(records))])
    assert (window.series, window.histograms, window.facts) == ((), (), ())
    [doubt] = window.doubts_of(DoubtKind.UNREADABLE)
    assert "--all" in doubt.what


def test_a_short_file_has_counts_of_latencies_and_no_course(tmp_path: Path) -> None:
    window = read_inputs([saved(tmp_path, whole(sent(8, 0.5)))])
    assert window.series == ()
    assert window.find_histogram(Signal.GATEWAY_TTFT) is not None
    assert window.doubts_of(DoubtKind.UNREADABLE)


@pytest.mark.parametrize(
    ("broken", "place"),
    [
        (b'{"request_id":"a","arrived_at_unix_ns":1,"events":[]}\n', "line 4: is no record"),
        (b'{"request_id":"a"\n', "line 4: is no record"),
        (b"08:00:00 INFO started\n", "line 4: is no record"),
        (b'{"request_id":"' + b"a" * (1 << 20) + b'"}\n', "line 4: has more than"),
    ],
)
def test_a_broken_line_is_named_with_its_file_and_a_remedy(
    broken: bytes, place: str, tmp_path: Path
) -> None:
    name = saved(tmp_path, whole(sent(3)) + broken + whole(sent(3, first=3)))
    with pytest.raises(InputError) as raised:
        read_inputs([name])
    assert str(raised.value).startswith(f"{name}, {place.replace(': ', ' ')}")
    assert raised.value.remedy


def test_an_empty_file_and_a_page_of_the_list_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is empty"):
        read_inputs([saved(tmp_path, b"\n")])
    page = {"requests": [asdict(summarize(_row(each))) for each in sent(3)], "next": None}
    with pytest.raises(InputError, match="--all -o json"):
        read_inputs([saved(tmp_path, json.dumps(page, indent=2).encode())])


def test_more_requests_than_are_read_at_once_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered, "MOST_REQUESTS", 20)
    with pytest.raises(InputError, match=r"line 21.*--since"):
        read_inputs([saved(tmp_path, whole(sent(60)))])


def test_records_of_every_kind_that_can_end_are_read_in_both_forms(tmp_path: Path) -> None:
    samples = [
        (make, Sample(sequence=n * 40 + k, arrived_at_unix_ns=(EIGHT + n) * 10**9))
        for n in range(40)
        for k, make in enumerate(KINDS.values())
    ]
    records = [replace(make(sample), deployment="chat") for make, sample in samples]
    Random(0).shuffle(records)
    for form in (whole, listed):
        window = read_inputs([saved(tmp_path, form(records))])
        ended = {s.labels["disposition"] for s in window.all_series(Signal.GATEWAY_ENDED)}
        assert {"stop", "length", "rejected", "error", "deadline", "cancelled"} <= ended


def test_what_was_under_way_when_the_first_arrived_is_no_rise_from_nothing(tmp_path: Path) -> None:
    name = saved(tmp_path, whole(sent(60, first=500)))
    in_flight = found(read_inputs([name]), Signal.GATEWAY_IN_FLIGHT)
    assert in_flight.first.at == pytest.approx(EIGHT + TOOK, abs=0.01)
    assert {reading.value for reading in in_flight.readings} <= {5.0, 6.0}
    window = read_inputs([name])
    came = found(window, Signal.GATEWAY_ARRIVED).increase
    assert found(window, Signal.GATEWAY_ENDED).increase == pytest.approx(came, abs=1)


def test_where_the_first_request_of_all_is_there_courses_begin_with_it(tmp_path: Path) -> None:
    in_flight = found(read_inputs([saved(tmp_path, whole(sent(60)))]), Signal.GATEWAY_IN_FLIGHT)
    assert (in_flight.first.at, in_flight.first.value) == (EIGHT, 1)


@pytest.mark.parametrize("num_stalls", [0, 1, 3])
def test_answers_that_stood_still_are_told_where_they_are_no_accident(
    num_stalls: int, tmp_path: Path
) -> None:
    records = [*sent(400), *sent(num_stalls, first=400, tokens=0.4)]
    window = read_inputs([saved(tmp_path, whole(records))])
    assert window.number("answers stalls") == (num_stalls if num_stalls > 1 else None)
