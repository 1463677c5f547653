"""Which minutes of a promise were planned maintenance."""

import json
from dataclasses import replace

import pytest

from controlplane.slo.maintenance import Stretch, maintenance_of
from controlplane.slo.promised import Promise, promises_of
from controlplane.slo.silences import Silence, SilenceKind, SilenceScope
from controlplane.specs.contract import SLOContractSpec

_S = 10**9
_SPEC = SLOContractSpec.model_validate_json(
    json.dumps(
        {
            "boundary": "server",
            "window": "30d",
            "classes": {
                "interactive": {
                    "objectives": [{"signal": "ttft", "at_most": "300ms", "for": "99%"}]
                }
            },
        }
    )
)


def promise() -> Promise:
    (only,) = promises_of("chat", "chat@1", _SPEC)
    return only


def window(first: float, last: float, scope: SilenceScope | None = None) -> Silence:
    return Silence(
        silence_id="a1",
        kind=SilenceKind.MAINTENANCE,
        scope=scope or SilenceScope(deployment="chat"),
        reason="new disks",
        created_by="anna",
        created_at_unix_ns=0,
        from_unix_ns=int(first * _S),
        until_unix_ns=int(last * _S),
    )


def minutes(*windows: Silence, end: int = 6000) -> list[Stretch]:
    return maintenance_of(promise(), windows, 0, end)


def test_every_minute_that_a_window_touched_is_one_of_it() -> None:
    assert minutes(window(119.5, 180.1)) == [Stretch(60, 240)]
    assert minutes(window(120, 180)) == [Stretch(120, 180)]


def test_windows_that_overlap_or_meet_are_counted_once() -> None:
    assert minutes(window(600, 900), window(60, 180), window(120, 300), window(300, 360)) == [
        Stretch(60, 360),
        Stretch(600, 900),
    ]


def test_only_what_lies_within_the_time_that_was_asked_for() -> None:
    assert minutes(window(-600, 120), window(5400, 9000)) == [
        Stretch(0, 120),
        Stretch(5400, 6000),
    ]
    assert minutes(window(6000, 9000)) == []


def test_one_that_ended_early_is_as_long_as_it_was() -> None:
    ended = replace(window(600, 3600), ended_at_unix_ns=1200 * _S)
    assert minutes(ended) == [Stretch(600, 1200)]
    called_off = replace(window(600, 3600), ended_at_unix_ns=300 * _S)
    assert minutes(called_off) == []


@pytest.mark.parametrize(
    ("scope", "is_its"),
    [
        (SilenceScope(), True),
        (SilenceScope(deployment="chat", objective="ttft"), True),
        (SilenceScope(deployment="chat", request_class="batch"), False),
        (SilenceScope(deployment="other"), False),
    ],
)
def test_a_window_of_something_else_is_none_of_this_promise(
    scope: SilenceScope, is_its: bool
) -> None:
    assert (minutes(window(60, 120, scope)) != []) is is_its


def test_a_silence_is_no_maintenance() -> None:
    assert minutes(replace(window(60, 120), kind=SilenceKind.SILENCE)) == []
