"""What is told of an answer that is none."""

import pytest

from dataplane.openai_endpoint.refusal import read_plain_refusal, status_of


@pytest.mark.parametrize(
    ("status", "told"), [(400, 400), (404, 404), (422, 422), (429, 503), (503, 503), (500, 502)]
)
def test_the_callers_mistakes_keep_their_status_and_the_rest_is_the_services(
    status: int, told: int
) -> None:
    assert read_plain_refusal(status, {"error": {"message": "why"}}).status_code == told


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "nested"}}, "nested"),
        ({"object": "error", "message": "flat", "code": 400}, "flat"),
        ({"error": "a text"}, "a text"),
        ("<html>a proxy</html>", "<html>a proxy</html>"),
    ],
)
def test_the_message_is_found_wherever_it_stands(body: object, message: str) -> None:
    assert message in read_plain_refusal(400, body).reason


def test_a_code_of_text_is_handed_on_and_a_number_is_none() -> None:
    assert read_plain_refusal(400, {"error": {"code": "invalid_value"}}).code == "invalid_value"
    assert read_plain_refusal(400, {"error": {"code": 400}}).code is None
    assert read_plain_refusal(500, {"error": {"code": "internal"}}).code is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"code": 503}}, 503),
        ({"code": 400}, 400),
        ({"error": {"code": "too_long"}}, 502),
        ({"error": {"code": 200}}, 502),
        ({"error": {"code": True}}, 502),
        ({"error": "a text"}, 502),
    ],
)
def test_an_error_in_a_stream_tells_its_own_status_if_it_is_one(body: object, status: int) -> None:
    assert status_of(body, default=502) == status
