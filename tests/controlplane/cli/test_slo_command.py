"""`pilothouse slo`, against a control plane that listens."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.store.counts import add_counts
from controlplane.store.request_rows import CountKey
from controlplane.store.revisions import apply_documents
from controlplane.store.series import MinuteSample, add_samples
from tests.controlplane.config_documents import (
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    ENGINE,
    MODEL,
    documents,
)
from tests.controlplane.control_plane_server import serve_control_plane
from tests.controlplane.slo.prometheus.promtool import check

LOOSE = DESIGN_CONTRACT.replace("at_most: 40ms, for: 95%", "at_most: 40ms, for: 90%")
_DEPLOYMENT = """\
kind: Deployment
metadata: {{name: {name}}}
spec: {{model: smollm2, engine: attached, policy: chat, replicas: 0{contract}}}
"""
FREE = _DEPLOYMENT.format(name="free", contract="")
CHAT = _DEPLOYMENT.format(name="chat", contract=", contract: chat")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    minute = int(time.time()) // 60 * 60
    with serve_control_plane(tmp_path_factory.mktemp("state")) as (served, opened):
        with opened.config_db.session() as session:
            texts = documents(MODEL, ENGINE, LOOSE, DESIGN_POLICY, CHAT, FREE)
            apply_documents(session, texts, author="ann", reason="", clock=time.time_ns)
        with opened.request_db.session() as session:
            sample = MinuteSample(
                minute_unix=minute, deployment="", num_gateways=1, active=0, queued=0
            )
            add_samples(session, [sample])
            for measure, value in (("ttft.good", 60), ("ttft.total", 100)):
                key = CountKey(
                    minute, "chat", "interactive", "acme", "chat@1", f"objective.{measure}"
                )
                add_counts(session, {key: value})
        yield served


def _run(url: str, *arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(main, ["slo", *arguments, "--url", url])


def test_status_tells_states_burns_and_what_fires(url: str) -> None:
    answer = _run(url, "status", "chat", "-o", "json")
    assert answer.exit_code == 0, answer.output
    by_objective = {each["objective"]: each for each in json.loads(answer.stdout)["standings"]}
    assert set(by_objective) == {"ttft", "tpot", "availability", "together"}
    ttft = by_objective["ttft"]
    assert ttft["state"] == "breaching"
    assert ttft["contract_revision"] == "chat@1"
    assert {each["window"]: each["burn_rate"] for each in ttft["burns"]}["1h"] == pytest.approx(40)
    assert ttft["firing"][0]["grade"] == "page_quick"
    assert by_objective["availability"]["state"] == "insufficient_data"
    assert any("page_quick" in sentence for sentence in by_objective["tpot"]["left_out"])


def test_the_table_has_every_promise_and_names_who_promises_nothing(url: str) -> None:
    answer = _run(url, "status")
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert sum(line.startswith("chat") and " interactive " in line for line in lines) >= 4
    assert any("free" in line and "no contract" in line for line in lines)


def test_rules_are_what_prometheus_takes_and_carry_their_revision(url: str, tmp_path: Path) -> None:
    path = tmp_path / "chat.rules.yml"
    answer = _run(url, "render", "chat", "--out", str(path))
    assert answer.exit_code == 0, answer.output
    assert "page_quick" in answer.stderr
    for name in ("counting", "static"):
        (tmp_path / f"{name}.rules.yml").write_text(_run(url, "render", "--common", name).stdout)
    check(tmp_path, [f"{name}.rules.yml" for name in ("chat", "counting", "static")])
    assert "contract_revision: chat@1" in path.read_text()
    assert f"{url}/runbooks/budget-burn" in path.read_text()
    elsewhere = _run(url, "render", "chat", "--console-url", "https://pilothouse.example/")
    assert "https://pilothouse.example/runbooks/budget-burn" in elsewhere.stdout


def test_alertmanager_is_told_where_to_deliver_and_what_it_lacks_is_said(url: str) -> None:
    answer = _run(url, "render", "--common", "alertmanager", "--credentials-file", "/k/operator")
    assert answer.exit_code == 0, answer.output
    assert f"url: {url}/api/v1/alerts/alertmanager" in answer.stdout
    assert "credentials_file: /k/operator" in answer.stdout
    assert "--watchdog-url-file" in answer.stderr
    whole = _run(url, "render", "--common", "alertmanager", "--watchdog-url-file", "/k/outside")
    assert "url_file: /k/outside" in whole.stdout
    assert whole.stderr == ""


@pytest.mark.parametrize(
    "asked",
    [
        "counting?console_url=https://pilothouse.example",
        "alertmanager?console_url=https://pilothouse.example",
        "counting?credentials_file=/k/operator",
        "static?watchdog_url_file=/k/outside",
    ],
)
def test_what_a_file_has_no_use_for_is_refused_by_the_api_too(url: str, asked: str) -> None:
    answer = httpx.get(f"{url}/api/v1/slo/common-rules/{asked}", trust_env=False)
    assert answer.status_code == 422


@pytest.mark.parametrize("path", ["here/key", ""])
def test_a_file_of_another_machine_has_an_absolute_path(url: str, path: str) -> None:
    answer = _run(url, "render", "--common", "alertmanager", "--credentials-file", path)
    assert answer.exit_code != 0
    assert "credentials_file" in answer.stderr


@pytest.mark.parametrize("arguments", [("status", "nobody"), ("render", "nobody")])
def test_what_is_not_there_is_said(url: str, arguments: tuple[str, ...]) -> None:
    answer = _run(url, *arguments)
    assert answer.exit_code == ExitCode.NOT_FOUND
    assert "nobody" in answer.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("chat", "--common", "static"),
        ("--common", "static", "--credentials-file", "/k/operator"),
        ("chat", "--watchdog-url-file", "/k/outside"),
        ("--common", "counting", "--console-url", "https://pilothouse.example"),
        ("--common", "alertmanager", "--console-url", "https://pilothouse.example"),
    ],
)
def test_rules_are_of_one_contract_or_of_all(url: str, arguments: tuple[str, ...]) -> None:
    assert _run(url, "render", *arguments).exit_code == ExitCode.USAGE


def test_a_file_in_no_folder_is_refused_before_anything_is_asked(url: str, tmp_path: Path) -> None:
    answer = _run(url, "render", "chat", "--out", str(tmp_path / "none" / "rules.yml"))
    assert answer.exit_code == ExitCode.USAGE
    assert "mkdir -p" in answer.stderr


@pytest.mark.parametrize(
    "arguments", [("render", "chat"), ("status",), ("status", "-o", "json")], ids=" ".join
)
def test_an_answer_for_which_there_is_no_room_fails(
    url: str, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    with (tmp_path / "answer").open("wb") as answer:
        done = subprocess.run(
            [sys.executable, "-m", "controlplane.cli", "slo", *arguments, "--url", url],
            stdout=answer,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        )
    assert done.returncode == ExitCode.FAILED
    assert b"make room" in done.stderr


@pytest.mark.parametrize("columns", [None, 30, 60, 80, 120])
def test_no_word_of_the_table_is_cut(url: str, columns: int | None) -> None:
    environment = {"COLUMNS": None if columns is None else str(columns)}
    answer = CliRunner(env=environment).invoke(main, ["slo", "status", "chat", "--url", url])
    assert "…" not in answer.stdout
    for word in ("deployment", "objective", "availability", "insufficient", "interactive"):
        assert word in answer.stdout
