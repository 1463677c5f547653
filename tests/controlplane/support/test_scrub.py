"""Secrets are taken out of text and data wherever they stand, and nothing else is."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.support.scrub import Scrubber, is_secret_name, passwords_in, secrets_of

SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"key phk_1a2b3c_{SECRET} was shown",
        f"authorization: Bearer {SECRET}",
        f"Proxy-Authorization: basic {SECRET}",
        f"postgresql+psycopg://ann:{SECRET}@db.example/pilothouse",
        f"https://ann:p/w@{SECRET}@example.com/x",
        f"https://{SECRET}@example.com/x",
        f"/v1?api_key={SECRET}&limit=3",
        f"password={SECRET} host=db",
        f'{{"db_password": "{SECRET}"}}',
        f"client_secret: {SECRET}",
        f"HF_TOKEN={SECRET}",
        f"cookie: session={SECRET}; theme=dark",
        f"sk-{SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
        f"non-default args: {{'api_key': ['{SECRET}', '{SECRET}-2'], 'model': 'm'}}",
        f"args: Namespace(api_key='{SECRET}', port=8000)",
        f"vllm serve m --api-key {SECRET} --port 8000",
        f"['--api-key', '{SECRET}']",
        f'{{"event": "{{\\"password\\": \\"{SECRET}\\"}}"}}',
        f'password: "two words, {SECRET}"',
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    assert SECRET not in Scrubber().text(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"num_prompt_tokens": 128, "max_output_tokens": 51}',
        'pilothouse_gateway_output_tokens_total{deployment="chat"} 51.0',
        "tokens_per_minute: 200000",
        "Prefill batch. #new-token: 8192, #cached-token: 0, token usage: 0.85",
        "time_per_output_token=0.04, first token: 350 ms",
        "tokenizer: {path: /models/tokenizer.json}",
        "http://127.0.0.1:8701/metrics",
        "model smollm2@7, policy chat@3",
        "a bearer of news",
        "2026-11-29T02:14:00Z the key of the matter",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Scrubber().text(text) == text


def test_what_stands_under_the_name_of_a_secret_is_masked_whole() -> None:
    data = {"settings": {"api_key": {"value": [SECRET]}, "max_model_len": 4096}, "list": [SECRET]}

    scrubbed = Scrubber([SECRET]).data(data)

    assert scrubbed == {
        "settings": {"api_key": "***", "max_model_len": 4096},
        "list": ["***"],
    }


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("PILOTHOUSE_KEY", True),
        ("PGPASSWORD", True),
        ("HF_TOKEN", True),
        ("OTEL_EXPORTER_OTLP_HEADERS", True),
        ("authorization", True),
        ("num_output_tokens", False),
        ("tokenizer", False),
        ("PILOTHOUSE_URL", False),
        ("keyboard", False),
    ],
)
def test_names_that_promise_a_secret(name: str, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret


def test_secrets_of_the_environment_are_known_by_value_and_in_their_parts() -> None:
    environment = {"OTEL_EXPORTER_OTLP_HEADERS": f"x-team={SECRET},x=y", "HOME": "/root/home"}

    scrubber = Scrubber(secrets_of(environment))

    assert SECRET not in scrubber.text(f"it said {SECRET} aloud")
    assert scrubber.text("in /root/home") == "in /root/home"


@pytest.mark.parametrize(
    ("url", "passwords"),
    [
        ("postgresql://u:p%40ss@h/d", ["p%40ss", "p@ss"]),
        ("postgresql://u:br[acket@h/d", ["br[acket", "br[acket"]),
        ("postgresql://u:sl/ash]@h/d", ["sl/ash]", "sl/ash]"]),
        ("postgresql://u@h/d?password=asked%21", ["asked!"]),
        ("postgresql://u@h/d", []),
        ("sqlite:///x.db", []),
        ("no url with a secret", ["no url with a secret"]),
    ],
)
def test_passwords_of_urls_are_known_as_written_and_decoded(url: str, passwords: list[str]) -> None:
    assert passwords_in([url]) == passwords


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_scrubbed_data_is_still_json(value: object) -> None:
    json.dumps(Scrubber(["secret-value"]).data(value))
