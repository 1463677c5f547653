"""Silences and maintenance from the command line, against a real control plane."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from tests.controlplane.control_plane_server import serve_service

_HOUR_NS = 3600 * 10**9


@pytest.fixture(autouse=True)
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serve_service(tmp_path) as url:
        monkeypatch.setenv("PILOTHOUSE_URL", url)
        yield url


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["slo", *arguments])


def silence(*more: str) -> Result:
    return run("silence", "chat", "--for", "1h", "--reason", "anna is on it", *more)


def ids(*arguments: str) -> list[str]:
    listed = run("silences", "-o", "json", *arguments)
    return [each["silence_id"] for each in json.loads(listed.output)["silences"]]


def test_a_silence_is_listed_with_its_reason_until_it_is_ended_and_then_kept() -> None:
    made = silence("--class", "interactive", "--severity", "ticket", "-o", "json")
    assert made.exit_code == 0, made.output
    its_id = json.loads(made.output)["silence_id"]
    listing = run("silences").output
    assert all(word in listing for word in (its_id, "tickets only", "in force", "anna is on it"))
    ended = run("unsilence", its_id, "--reason", "mended")
    assert (ended.exit_code, ended.output.split()[:2]) == (0, ["ended", f"{its_id}:"])
    assert ids() == []
    assert ids("--all") == [its_id]
    assert "by local" in run("silences", "--all").output


def test_its_beginning_and_its_end_are_events_and_what_is_planned_or_called_off_is_none() -> None:
    made = json.loads(silence("-o", "json").output)["silence_id"]
    ahead = run("maintenance", "chat", "--for", "1h", "--from", "+2h", "--reason", "disks")
    assert ahead.exit_code == 0, ahead.output
    (planned,) = set(ids()) - {made}
    assert [each[:2] for each in events(made, planned)] == [(made, "began:")]
    run("unsilence", made, "--reason", "mended")
    run("unsilence", planned, "--reason", "not today")
    ended, began = events(made, planned)
    assert (began[1:], ended[1:]) == (
        ("began:", "anna is on it", "local"),
        ("ended:", "mended", "local"),
    )


def events(*silence_ids: str) -> list[tuple[str, str, str, str | None]]:
    """Id, how it went, why and by whom, of those of chat; the newest first."""
    told = CliRunner().invoke(main, ["get", "events", "chat", "-o", "json"])
    return [
        (its_id, each["what"].split()[0], each["reason"], each["author"])
        for each in json.loads(told.output)
        if (its_id := each["subject"].split()[-1]) in silence_ids
    ]


def test_how_promises_stand_says_that_nobody_would_be_told() -> None:
    assert "nobody is told" not in run("status", "chat").output
    assert silence("--severity", "page").exit_code == 0
    said = run("status", "chat").output
    assert "nobody is told here of alerts of chat, pages only" in said
    assert "anna is on it" in said


def test_maintenance_is_planned_ahead() -> None:
    planned = run(
        "maintenance", "chat", "--from", "+2h", "--for", "30m", "--reason", "disks", "-o", "json"
    )
    assert planned.exit_code == 0, planned.output
    made = json.loads(planned.output)
    assert (made["kind"], made["state"]) == ("maintenance", "planned")
    assert abs(made["from_unix_ns"] - time.time_ns() - 2 * _HOUR_NS) < 60 * 10**9
    assert made["until_unix_ns"] - made["from_unix_ns"] == _HOUR_NS // 2
    wrong = run("maintenance", "chat", "--from", "noon", "--for", "30m", "--reason", "disks")
    assert wrong.exit_code == ExitCode.USAGE
    assert "2026-12-01T02:00" in wrong.output


def test_what_it_would_keep_back_is_shown_and_nothing_made() -> None:
    shown = silence("--objective", "ttft", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "chat interactive ttft" in shown.output
    assert "Nothing was made." in shown.output
    assert ids() == []


def test_everything_is_silenced_only_where_it_is_said() -> None:
    for wrong in (["silence"], ["silence", "chat", "--all-deployments"]):
        refused = run(*wrong, "--for", "1h", "--reason", "x")
        assert refused.exit_code == ExitCode.USAGE
        assert "--all-deployments" in refused.output
    assert run("silence", "--all-deployments", "--for", "1h", "--reason", "x").exit_code == 0
    assert len(ids()) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--class", "nobody"], "the contract has interactive"),
        (["--objective", "speed"], "the contract has availability"),
        (["--for", "25h"], "--longer"),
        (["--for", "soon"], "'--for': 'soon' is not a duration"),
    ],
)
def test_what_would_silence_nothing_is_refused_with_the_remedy(words: list[str], why: str) -> None:
    refused = silence(*words)
    assert refused.exit_code != 0
    assert why in refused.output
    assert ids() == []
