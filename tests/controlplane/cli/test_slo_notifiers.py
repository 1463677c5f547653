"""Whether people would be told: asked of a control plane that listens."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from controlplane.api.alerting_views import AlertingView
from controlplane.cli import main
from controlplane.cli.alerting_options import alerting_arguments, read_alerting
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.slo_alerting_output import alerting_lines
from controlplane.slo.alerting_settings import AlertingSettings, parse_plan
from tests.controlplane.control_plane_server import serve_control_plane
from tests.controlplane.slo.notices.webhook_server import SECRET, WebhookServer, serve_webhook


@contextmanager
def _told_by(folder: Path, *hooks: WebhookServer) -> Iterator[str]:
    plans = []
    for number, hook in enumerate(hooks):
        file = folder / f"{number}.url"
        file.write_text(hook.url)
        plans.append(parse_plan(f"hook-{number}=webhook:{file}"))
    settings = AlertingSettings(notifiers=tuple(plans), console_url="https://console.example.com")
    with serve_control_plane(folder / "state", alerting=settings) as (url, _):
        yield url


@pytest.fixture
def hook() -> Iterator[WebhookServer]:
    with serve_webhook() as served:
        yield served


def _run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["slo", *arguments, "--url", url])


def test_a_test_alert_is_marked_and_goes_through_each_notifier(
    hook: WebhookServer, tmp_path: Path
) -> None:
    with serve_webhook() as other, _told_by(tmp_path, hook, other) as url:
        result = _run(url, "test-alert", "-o", "json")
        assert result.exit_code == ExitCode.OK, result.output
        answers = json.loads(result.stdout)["answers"]
        assert [(each["name"], each["has_arrived"]) for each in answers] == [
            ("hook-0", True),
            ("hook-1", True),
        ]
        (told,) = hook.heard
        assert told["kind"] == "test"
        assert told["console_url"] == "https://console.example.com"
        assert [each["name"] for each in told["firing"]] == ["PilothouseTestAlert"]
        assert len(other.heard) == 1


def test_one_that_does_not_take_it_fails_the_command_and_the_other_is_asked_too(
    hook: WebhookServer, tmp_path: Path
) -> None:
    hook.status = 403
    with serve_webhook() as other, _told_by(tmp_path, hook, other) as url:
        result = _run(url, "test-alert")
        assert result.exit_code == ExitCode.FAILED
        assert "hook-0 (webhook): did not arrive: HTTP 403" in result.output
        assert len(other.heard) == 1


def test_without_a_notifier_the_remedy_is_told(tmp_path: Path) -> None:
    with serve_control_plane(tmp_path / "state") as (url, _):
        result = _run(url, "test-alert")
        assert result.exit_code == ExitCode.FAILED
        assert "--notify" in result.output


def test_how_alerting_goes_is_told_without_the_address(hook: WebhookServer, tmp_path: Path) -> None:
    with _told_by(tmp_path, hook) as url:
        answer = httpx.get(f"{url}/api/v1/slo/alerting")
        assert SECRET not in answer.text
        assert [each["name"] for each in answer.json()["notifiers"]] == ["hook-0"]
        assert SECRET not in httpx.get(f"{url}/metrics").text
        told = _run(url, "alerting")
        assert told.exit_code == ExitCode.OK
        assert "does not end" not in told.output


def test_an_evaluation_that_does_not_end_is_told() -> None:
    view = AlertingView(
        as_of_unix_ns=900 * 10**9,
        is_on=True,
        evaluate_seconds=30,
        evaluated_at_unix_ns=0,
        pass_seconds=0.1,
        num_promises=4,
        num_failed_passes=0,
        error=None,
        num_firing=0,
        notifiers=[],
    )
    assert "last 15 min ago" in next(alerting_lines(view))
    assert "does not end" in next(alerting_lines(view))


def test_options_say_the_same_to_another_process(tmp_path: Path) -> None:
    file = tmp_path / "slack.url"
    file.write_text("https://example.com")
    given = {
        "alerting": "on",
        "evaluate_seconds": 60.0,
        "notifiers": (parse_plan(f"oncall=slack:{file}"),),
        "console_url": "https://console.example.com",
    }
    told = alerting_arguments(given)
    assert told == (
        *("--alerting", "on", "--evaluate-seconds", "60"),
        *("--notify", f"oncall=slack:{file}", "--console-url", "https://console.example.com"),
    )
    assert read_alerting(given).notifiers[0].file == file


@pytest.mark.parametrize("command", ["serve", "controlplane"])
def test_two_of_one_name_are_refused_before_anything_starts(command: str, tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://example.com")
    told = [
        "--notify",
        f"oncall=slack:{tmp_path}/url",
        "--notify",
        f"oncall=webhook:{tmp_path}/url",
    ]
    result = CliRunner().invoke(main, [command, "--state-dir", str(tmp_path / "state"), *told])
    assert result.exit_code == ExitCode.USAGE
    assert "two are called oncall" in result.output
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("command", [["serve"], ["slo", "render", "chat"], ["slo", "dashboards"]])
def test_an_address_that_no_browser_opens_is_refused(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--console-url", "console.example.com"])
    assert result.exit_code == ExitCode.USAGE
    assert "https://pilothouse.example" in result.output


@pytest.mark.parametrize(
    "words", [["--wait", "5"], ["--alertmanager", "http://127.0.0.1:9", "-o", "json"]]
)
def test_what_would_be_passed_over_is_refused(words: list[str]) -> None:
    assert _run("http://127.0.0.1:9", "test-alert", *words).exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("oncall", "NAME=KIND:FILE"),
        ("oncall=pigeon:/nowhere/at/all", "there is no file"),
        ("oncall=slack:/nowhere/at/all", "cannot be read"),
        ("oncall=slack:/etc/hostname", "must be the address"),
    ],
)
def test_a_notifier_that_cannot_be_is_refused_before_anything_starts(text: str, why: str) -> None:
    result = CliRunner().invoke(main, ["serve", "--notify", text])
    assert result.exit_code == ExitCode.USAGE
    assert why in result.output


def test_a_kind_that_nobody_makes_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    file = tmp_path / "address"
    file.write_text("https://hooks.example/1\n")
    told = ("--state-dir", str(tmp_path / "state"), "--notify", f"oncall=slak:{file}")
    result = CliRunner().invoke(main, ["serve", *told])
    assert result.exit_code == ExitCode.USAGE
    assert "did you mean slack?" in result.output
    assert "webhook" in result.output
    assert not (tmp_path / "state").exists()
