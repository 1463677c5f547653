"""The first sentence about a request."""

from dataclasses import replace

from controlplane.api.headline import headline_of
from controlplane.store.request_tables import RequestRow
from dataplane.contract_terms import Objective, ObjectiveSignal
from dataplane.judgement import judge
from dataplane.latency import Boundary
from dataplane.lifecycle import CLIENT_LEFT
from dataplane.outcome import Outcome
from dataplane.record import ClientReport, RequestRecord
from ops.sample_requests import CHAT_TERMS, Sample, answered

_AVAILABILITY = Objective(signal=ObjectiveSignal.AVAILABILITY, target=0.999)


def promised_at_the_client(*, is_available_too: bool) -> RequestRecord:
    record = answered(Sample(sequence=1, arrived_at_unix_ns=10**18))
    objectives = CHAT_TERMS.objectives[:1] + ((_AVAILABILITY,) if is_available_too else ())
    terms = replace(CHAT_TERMS, boundary=Boundary.CLIENT, objectives=objectives)
    silent = replace(record, client=None)
    judgement = judge(silent.latencies, Outcome.ANSWERED, terms, elapsed=1.0)
    return replace(silent, judgement=judgement)


def test_a_contract_at_the_client_is_not_called_kept_while_the_client_is_silent() -> None:
    for is_available_too, says in ((False, "not judged"), (True, "in contract so far")):
        record = promised_at_the_client(is_available_too=is_available_too)
        row = RequestRow(disposition="stop", in_contract=True if is_available_too else None)
        headline = headline_of(row, record)
        assert headline.tone == "no_data"
        assert says in headline.text
        assert "client" in (headline.remedy or "")
        told = replace(record, client=ClientReport(first_content=0.1, final_content=0.2))
        assert says not in headline_of(row, told).text


def test_a_reason_that_is_a_sentence_of_its_own_gets_no_second_full_stop() -> None:
    row = RequestRow(disposition="invalid", reason="Temperature must be at most 2.")
    assert headline_of(row, None).text.endswith("Temperature must be at most 2.")


def test_a_reason_that_is_a_fragment_is_closed() -> None:
    row = RequestRow(disposition="error", reason="replica chat-1 vanished")
    assert headline_of(row, None).text.endswith("replica chat-1 vanished.")


def test_who_was_cut_off_is_not_said_to_have_left() -> None:
    slow = "the client read too slowly: 4100 bytes waited"
    row = RequestRow(disposition="cancelled", reason=slow, in_contract=True)
    assert headline_of(row, None).text == f"Cut off ({slow}), in contract."
    row.reason = CLIENT_LEFT
    assert headline_of(row, None).text == "The client left, in contract."


def test_a_reason_that_begins_with_the_ending_says_it_once() -> None:
    row = RequestRow(disposition="rejected", reason="Rejected: 79 requests go before it.")
    assert headline_of(row, None).text == "Rejected: 79 requests go before it."
