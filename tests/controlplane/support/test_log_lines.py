"""What a bundle keeps of log lines: what happened, to whom, and nothing that callers sent."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.support.log_lines import clean_log_line
from controlplane.support.scrub import Scrubber

CANARY = "PROMPT-CANARY"


def clean(**fields: object) -> dict[str, object]:
    cleaned: dict[str, object] = json.loads(clean_log_line(json.dumps(fields), Scrubber()))
    return cleaned


def test_what_happened_to_whom_and_when_is_kept() -> None:
    line = {
        "process": "gateway",
        "gateway_id": "gateway-0-9c1f",
        "request_id": "3f9c",
        "event": "a replica is gone",
        "logger": "dataplane.gateway.fleet",
        "level": "warning",
        "at": "2026-11-29T02:14:00Z",
        "replica_id": "chat-7f",
        "num_outstanding": 3,
        "is_forced": False,
        "exit_code": None,
    }

    assert clean(**line) == line


@pytest.mark.parametrize(
    "fields",
    [
        {"process": "gateway", "prompt": CANARY},
        {"process": "controlplane", "messages": [{"content": CANARY}]},
        {"process": "controlplane", "content": CANARY},
        {"process": "replica", "error": f"cannot tokenize {CANARY}"},
        {"process": "gateway", "stop": CANARY},
        {"process": "controlplane", "request_id": "3f9c", "error": f"refused {CANARY}"},
        {"process": "controlplane", "error": f"no such name: '{CANARY}'"},
        {"process": "controlplane", "error": f"[SQL: INSERT] [parameters: ({CANARY})]"},
        {"process": "gateway", "logger": "uvicorn.error", "event": f"bad request {CANARY}"},
        {
            "process": "controlplane",
            "exception": f'Traceback (most recent call last):\n  File "a.py", line 3, in f\n'
            f'    raise ValueError("{CANARY}")\nValueError: {CANARY}',
        },
    ],
)
def test_no_field_carries_what_a_caller_sent(fields: dict[str, object]) -> None:
    line = {"event": "something", "logger": "dataplane.x", **fields}

    assert CANARY not in clean_log_line(json.dumps(line), Scrubber())


def test_a_traceback_keeps_its_frames_and_the_type_of_the_error() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    x()\nOSError: no'

    kept = clean(process="replica", exception=text)["exception"]

    assert kept == 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nOSError: ...'


@pytest.mark.parametrize("break_", ["\u2028", "\u2029", "\x85", "\x0c"])
def test_no_part_of_a_message_passes_for_a_line_of_a_traceback(break_: str) -> None:
    text = (
        f'Traceback (most recent call last):\n  File "a.py", line 3, in f\n'
        f'OSError: {CANARY}{break_}  File "{CANARY}", line 4{break_}{CANARY}Error: x'
    )

    kept = clean(process="replica", exception=text)["exception"]

    assert kept == 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nOSError: ...'


def test_what_the_operating_system_said_is_kept_everywhere() -> None:
    said = "[Errno 111] Connection refused"

    assert clean(process="gateway", error=f"cannot connect: {said}")["error"] == said


def test_the_control_planes_own_errors_are_kept_without_what_they_quote() -> None:
    cleaned = clean(process="controlplane", error="document 'x y' lacks a name")

    assert cleaned["error"] == "document '...' lacks a name"


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("Error: the config database is older; run pilothouse db upgrade", True),
        ('  File "/x/y.py", line 12, in start', True),
        ("RuntimeError: PROMPT-CANARY", False),
        ("PROMPT-CANARY", False),
    ],
)
def test_lines_that_are_no_json(line: str, kept: bool) -> None:
    cleaned = clean_log_line(line, Scrubber())

    assert (cleaned == line) is kept
    assert CANARY not in cleaned


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text().filter(lambda name: name not in ("event", "level", "logger", "at", "process")),
        st.just(f"what {CANARY} wrote"),
        min_size=1,
    ),
    st.sampled_from(["gateway", "replica", "unknown"]),
)
def test_no_field_of_any_name_carries_a_sentence_out_of_a_gateway(
    fields: dict[str, str], process: str
) -> None:
    line = json.dumps({**fields, "process": process, "event": "e", "logger": "dataplane.gateway"})

    assert f"what {CANARY}" not in clean_log_line(line, Scrubber())
