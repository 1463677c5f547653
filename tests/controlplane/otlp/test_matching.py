"""Which request a report is about: with retries, several calls in a trace, or no certainty."""

from dataclasses import replace

from controlplane.otlp.matching import Candidate, RequestKey, Sent, match_reports
from controlplane.otlp.report import ClientTimes, Side, SpanReport
from dataplane.record import ClientReport

TRACE = "0af7651916cd43dd8448eb211c80319c"


def request(number: int, **fields: object) -> Candidate:
    made = Candidate(
        key=RequestKey("gateway-0", number),
        request_id=f"request-{number}",
        trace_id=TRACE,
        span_id=f"{number:016x}",
        parent_span_id=None,
        tenant="acme",
        has_output=True,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


def client(span_id: str = "c1" * 8, **fields: object) -> Sent:
    made = SpanReport(
        trace_id=TRACE,
        span_id=span_id,
        parent_span_id=None,
        side=Side.CLIENT,
        name="chat",
        source="app",
        seconds=1.0,
        client=ClientTimes(report=ClientReport(first_content=0.1, final_content=0.2)),
    )
    return Sent(replace(made, **fields), "")  # type: ignore[arg-type]


def engine(parent: str | None, span_id: str = "e1" * 8) -> Sent:
    return client(span_id, side=Side.ENGINE, client=None, parent_span_id=parent)


def numbers(waiting: list[Sent], candidates: list[Candidate]) -> list[int | None]:
    return [key and key.gateway_sequence for key in match_reports(waiting, candidates)]


def test_each_call_of_a_trace_finds_the_request_that_it_sent() -> None:
    requests = [request(1, parent_span_id="c1" * 8), request(2, parent_span_id="c2" * 8)]
    assert numbers([client("c2" * 8), client("c1" * 8)], requests) == [2, 1]


def test_an_http_librarys_span_between_leads_to_the_client() -> None:
    requests = [request(1, parent_span_id="aa" * 8), request(2, parent_span_id="bb" * 8)]
    waiting = [client("c1" * 8, linked_span_ids=("bb" * 8,)), client("c2" * 8)]
    assert numbers(waiting, requests) == [2, None]


def test_after_retries_the_attempt_that_had_output_is_the_clients() -> None:
    attempts = [
        request(1, parent_span_id="c1" * 8, has_output=False),
        request(2, parent_span_id="c1" * 8, has_output=False),
        request(3, parent_span_id="c1" * 8),
    ]
    assert numbers([client()], attempts) == [3]
    assert numbers([client()], attempts[:2]) == [None], "the answer is yet to be recorded"


def test_the_response_id_tells_attempts_apart_that_both_had_output() -> None:
    attempts = [request(n, parent_span_id="c1" * 8) for n in (1, 2)]
    assert numbers([client()], attempts) == [None]
    assert numbers([client(named_request_id="request-1")], attempts) == [1]


def test_the_response_id_finds_a_request_of_another_trace() -> None:
    untraced = request(1, trace_id="ff" * 16)
    assert numbers([client(named_request_id="request-1")], [untraced]) == [1]


def test_a_trace_alone_tells_only_where_one_request_and_one_report_are() -> None:
    assert numbers([client()], [request(1)]) == [1]
    assert numbers([client()], [request(1), request(2)]) == [None]
    assert numbers([client("c1" * 8), client("c2" * 8)], [request(1)]) == [None, None]


def test_a_request_that_has_its_clients_report_takes_no_other() -> None:
    assert numbers([client()], [request(1, has_client_report=True)]) == [None]
    both = [client("c1" * 8, named_request_id="request-1"), client("c2" * 8)]
    assert numbers(both, [request(1, parent_span_id="c2" * 8)]) == [1, None]


def test_an_engines_span_is_of_the_request_that_called_it() -> None:
    requests = [request(1), request(2)]
    assert numbers([engine(f"{2:016x}"), engine("dd" * 8)], requests) == [2, None]
    assert numbers([engine(None)], [request(1, span_id=None)]) == [1]
    assert numbers([engine(None)], [request(1, span_id=None), request(2)]) == [None]


def test_a_request_takes_a_bounded_number_of_engines_spans() -> None:
    flood = [engine(f"{1:016x}", span_id=f"{n:016x}") for n in range(1, 40)]
    assert sum(found is not None for found in numbers(flood, [request(1)])) == 16


def test_a_senders_tenant_bounds_what_it_may_tell() -> None:
    report = client(named_request_id="request-1").report
    assert numbers([Sent(report, "other")], [request(1)]) == [None]
    assert numbers([Sent(report, "acme")], [request(1)]) == [1]
