"""Break-glass from the command line, against a real control plane."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from tests.controlplane.control_plane_server import serve_service


@pytest.fixture(autouse=True)
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serve_service(tmp_path) as url:
        monkeypatch.setenv("PILOTHOUSE_URL", url)
        yield url


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def id_of(made: Result) -> str:
    assert made.exit_code == 0, made.output
    override_id: str = json.loads(made.output)["override_id"]
    return override_id


def bypass(*more: str) -> Result:
    return run("override", "bypass", "chat", "--for", "1h", "--reason", "launch day", *more)


def test_a_bypass_is_listed_with_its_reason_until_it_is_ended() -> None:
    made = id_of(bypass("--class", "interactive", "-o", "json"))
    for listing in (run("override", "list"), run("get", "overrides")):
        assert "limits are off for class interactive" in listing.output
        assert "launch day" in listing.output
        assert made in listing.output
    ended = run("override", "end", made, "--reason", "calm again")
    assert (ended.exit_code, ended.output.split()[:2]) == (0, ["ended", f"{made}:"])
    assert "no override is in force" in run("get", "overrides").output
    assert "by local" in run("override", "list", "--all").output


def test_a_policy_or_replicas_are_pinned_and_never_both() -> None:
    pinned = run(
        "override", "pin", "chat", "--policy", "chat@1", "--for", "2h", "--reason", "chat@2 sheds"
    )
    assert pinned.exit_code == 0, pinned.output
    assert "policy chat@1 is pinned" in pinned.output
    assert "pilothouse override end" in pinned.output
    for wrong in ([], ["--policy", "chat@1", "--replica", "r"]):
        refused = run("override", "pin", "chat", "--for", "2h", "--reason", "x", *wrong)
        assert refused.exit_code == ExitCode.USAGE
        assert "either --policy or --replica" in refused.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--tenant", "nobody"], "no Tenant 'nobody'"),
        (["--class", "nobody"], "it has interactive, batch"),
        (["--for", "25h"], "--longer"),
        (["--for", "soon"], "'--for': 'soon' is not a duration"),
    ],
)
def test_what_cannot_be_enforced_is_refused_with_the_remedy(words: list[str], why: str) -> None:
    refused = bypass(*words)
    assert refused.exit_code != 0
    assert why in refused.output
    assert "no override is in force" in run("override", "list").output


def test_longer_than_a_day_has_to_be_said() -> None:
    assert bypass("--for", "2d", "--longer").exit_code == 0


def test_its_beginning_and_its_end_are_events_of_its_deployment() -> None:
    made = id_of(bypass("-o", "json"))
    run("override", "end", made, "--reason", "calm again")
    lines = [line for line in run("get", "events", "chat").output.splitlines() if made in line]
    assert ["ended: limits are off" in lines[0], "began: limits are off" in lines[1]] == [True] * 2
    assert "calm again" in lines[0]
    assert "launch day" in lines[1]


def test_a_list_is_narrowed_by_deployment_and_read_by_programs() -> None:
    made = id_of(bypass("-o", "json"))
    assert "no override is in force" in run("get", "overrides", "other*").output
    (only,) = json.loads(run("get", "overrides", "ch*", "-o", "json").output)
    assert only["override_id"] == made


def test_rollouts_are_frozen_of_one_deployment_or_of_all() -> None:
    for which in (["chat"], ["--all-deployments"]):
        frozen = run("override", "freeze", *which, "--for", "8h", "--reason", "quarter end")
        assert frozen.exit_code == 0, frozen.output
        assert "goes forward" in frozen.output
    assert run("override", "list").output.count("quarter end") == 2
    assert "every deployment" in run("get", "overrides", "other*").output
    for wrong in ([], ["chat", "--all-deployments"]):
        refused = run("override", "freeze", *wrong, "--for", "8h", "--reason", "x")
        assert refused.exit_code == ExitCode.USAGE
        assert "--all-deployments" in refused.output


def test_an_arm_is_forced_only_of_a_rollout_that_is_under_way() -> None:
    refused = run(
        "override", "force", "chat", "--arm", "stable", "--for", "1h", "--reason", "to look"
    )
    assert refused.exit_code == ExitCode.FAILED
    assert "no rollout of chat is under way" in refused.output
