"""Rollouts from the command line, against a real control plane."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from tests.controlplane.control_plane_server import serve_control_plane
from tests.controlplane.rolling_documents import OTHER_POLICY, ROLLING_SERVICE


@pytest.fixture(autouse=True)
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Rollout 1 of chat, to another policy, has begun its first step."""
    with serve_control_plane(tmp_path) as (url, _):
        monkeypatch.setenv("PILOTHOUSE_URL", url)
        for texts in (ROLLING_SERVICE, [OTHER_POLICY]):
            files = [{"name": f"f{number}.yaml", "text": text} for number, text in enumerate(texts)]
            body = {"files": files, "author": "ann", "reason": "longer queue"}
            applied = httpx.post(f"{url}/api/v1/apply", json=body, trust_env=False)
            assert applied.status_code == 200, applied.text
        deadline = time.monotonic() + 20
        # Not by the command: this process logs the move, and would log it into what is read.
        while _asked(url)["rollout"]["state"] != "running":
            assert time.monotonic() < deadline, "it never ran"
            time.sleep(0.05)
        yield url


def _asked(url: str) -> Any:
    return httpx.get(f"{url}/api/v1/rollouts/1", trust_env=False).json()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def shown() -> Any:
    result = run("rollout", "show", "1", "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def ask(asked: str, *more: str) -> Result:
    return run("rollout", asked, "1", "--reason", "because of lunch", *more)


def test_it_is_listed_shown_and_among_the_resources() -> None:
    for listing in (run("rollout", "list"), run("get", "rollouts"), run("get", "rollouts", "ch*")):
        (_, row) = listing.output.splitlines()
        assert row.split()[:5] == ["1", "chat", "running", "1/3", "5"]
        assert "policy chat@1 → chat@2" in row
    assert "no rollout is under way" in run("get", "rollouts", "other").output
    text = run("rollout", "show", "1").output
    for part in ("Steps", "Arms", "Analysis", "History", "longer queue"):
        assert part in text, part


def test_a_demand_moves_it_and_stands_in_its_history() -> None:
    assert ask("pause").exit_code == 0
    assert shown()["rollout"]["state"] == "paused"
    assert ask("resume").exit_code == 0
    assert ask("promote", "--step", "1").exit_code == 0
    view = shown()
    assert (view["rollout"]["state"], view["rollout"]["step"]) == ("running", 2)
    assert "because of lunch" in view["moves"][-1]["reason"]


def test_a_dry_run_says_what_would_happen_and_nothing_does() -> None:
    result = ask("promote", "--dry-run")
    assert result.exit_code == 0
    assert "from 5 % to 25 % of the traffic" in result.output
    plan = json.loads(ask("abort", "--dry-run", "-o", "json").output)
    assert (plan["state_after"], plan["share_after"]) == ("aborted", 0)
    assert shown()["rollout"]["step"] == 1


def test_what_cannot_be_done_says_so_by_its_exit_code() -> None:
    cases: list[tuple[list[str], ExitCode]] = [
        (["show", "7"], ExitCode.NOT_FOUND),
        (["watch", "7"], ExitCode.NOT_FOUND),
        (["abort", "7", "--reason", "x"], ExitCode.NOT_FOUND),
        (["resume", "1", "--reason", "x"], ExitCode.FAILED),
        (["retry", "1", "--reason", "x", "--dry-run"], ExitCode.FAILED),
        (["promote", "1", "--step", "2", "--reason", "x"], ExitCode.FAILED),
        (["abort", "1"], ExitCode.USAGE),
        (["abort", "chat", "--reason", "x"], ExitCode.USAGE),
    ]
    for arguments, code in cases:
        result = run("rollout", *arguments)
        assert result.exit_code == code, (arguments, result.output)
    assert shown()["rollout"]["state"] == "running"


def test_watching_ends_with_how_it_ended() -> None:
    for _ in range(3):
        assert ask("promote").exit_code == 0
    watched = run("rollout", "watch", "1", "-o", "json")
    moves = [json.loads(line) for line in watched.output.splitlines()]
    assert [each["state"] for each in moves] == ["waiting", *["running"] * 3, "promoted"]
    assert {each["rollout"] for each in moves} == {1}
    assert watched.exit_code == ExitCode.OK


def test_watching_one_that_is_aborted_fails_and_it_can_be_retried() -> None:
    assert ask("abort").exit_code == 0
    watched = run("rollout", "watch", "1")
    assert watched.exit_code == ExitCode.FAILED
    assert "aborted" in watched.output.splitlines()[-1]
    assert "rollout 2 of chat" in ask("retry").output
    rows = [line.split()[:2] for line in run("rollout", "list", "--all").output.splitlines()]
    # The log of this process may stand among them: the second begins meanwhile.
    assert [row for row in rows if row[1] == "chat"] == [["2", "chat"], ["1", "chat"]]


def test_events_have_its_beginning_and_its_end() -> None:
    ask("abort")
    found = json.loads(run("get", "events", "chat", "-o", "json").output)
    mine = [each for each in found if each["subject"] == "rollout 1"]
    assert [each["what"].partition(":")[0] for each in mine] == ["aborted at step 1 of 3", "began"]
    assert [each["author"] for each in mine] == [None, "ann"]
