"""The first sentence about a request."""

from controlplane.api.headline import headline_of
from controlplane.store.request_tables import RequestRow


def test_a_reason_that_is_a_sentence_of_its_own_gets_no_second_full_stop() -> None:
    row = RequestRow(disposition="invalid", reason="Temperature must be at most 2.")
    assert headline_of(row, None).text.endswith("Temperature must be at most 2.")


def test_a_reason_that_is_a_fragment_is_closed() -> None:
    row = RequestRow(disposition="error", reason="replica chat-1 vanished")
    assert headline_of(row, None).text.endswith("replica chat-1 vanished.")
