"""`pilothouse support-bundle`, with secrets and prompts planted wherever they could be."""

import json
import tarfile
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from controlplane.access.gateway_keys import key_path
from controlplane.access.own_keys import secrets_dir
from controlplane.cli import main
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from dataplane.clock import wall_clock
from dataplane.processes import ProcessDirectory, terminate
from tests.controlplane.cli.strange_server import strange_server
from tests.controlplane.config_documents import SERVICE
from tests.controlplane.control_plane_server import serve_control_plane
from tests.controlplane.quiet_gateway import quiet_report
from tests.e2e.served import start_serve

KEY = "phk_1a2b3c4d5e6f_" + ("KEYCANARY" * 5)[:43]
CANARIES = (
    "KEYCANARY",
    "BEARERCANARY",
    "URLCANARY",
    "SETTINGCANARY",
    "HEADERCANARY",
    "PROMPT-CANARY",
)
LOG = [
    {"process": "gateway", "logger": "dataplane.gateway", "event": "kept event", "num": 7},
    {"process": "gateway", "logger": "dataplane.gateway", "event": "x", "error": f"bad {KEY}"},
    {"process": "controlplane", "logger": "controlplane", "event": "x", "error": f"key {KEY}"},
    {"process": "controlplane", "event": "x", "error": "Authorization: Bearer BEARERCANARY"},
    {"process": "controlplane", "event": "x", "error": "at postgresql://u:URLCANARY@db/x"},
    {"process": "gateway", "event": "x", "prompt": "PROMPT-CANARY"},
    {"process": "gateway", "event": "x", "request_id": "1", "error": "PROMPT-CANARY"},
]


def run(state_dir: Path, *arguments: str, url: str = "http://127.0.0.1:1") -> Result:
    environment = {
        "PILOTHOUSE_KEY": KEY,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-team=HEADERCANARY",
        "PILOTHOUSE_STATE_DIR": str(state_dir),
        "PILOTHOUSE_URL": url,
    }
    return CliRunner().invoke(main, ["support-bundle", *arguments], env=environment)


def members(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def plant(state_dir: Path) -> None:
    """Logs and a process on record that hold what must not leave."""
    processes = ProcessDirectory(state_dir)
    argv = ["/bin/sleep", "0", "--config-url", "postgresql://u:URLCANARY@db/x"]
    record = processes.start("gateway-0", "gateway", argv, "digest")
    terminate(record, 5)
    log = "".join(json.dumps(line) + "\n" for line in LOG) + "RuntimeError: PROMPT-CANARY\n"
    processes.log_path("gateway-0").write_text(log)


def test_a_bundle_of_a_running_installation_holds_all_of_it_and_no_secret(tmp_path: Path) -> None:
    state_dir, path = tmp_path / "state", tmp_path / "b.tar.gz"
    state_dir.mkdir()
    plant(state_dir)
    with serve_control_plane(state_dir) as (url, opened):
        texts = [
            *SERVICE,
            "{kind: Model, metadata: {name: k}, spec: {artifact: "
            "{url: 'https://example.com/?api_key=SETTINGCANARY'}}}",
        ]
        files = [{"name": f"{n}.yaml", "text": text} for n, text in enumerate(texts)]
        applied = httpx.post(f"{url}/api/v1/apply", json={"files": files, "author": "ann"})
        assert applied.status_code == 200, applied.text
        opened.observed.put_gateway(quiet_report(reported_at_unix_ns=wall_clock()))
        result = run(state_dir, "--output", str(path), url=url)

    assert result.exit_code == 0, result.output
    found = members(path)
    for canary in CANARIES:
        assert [name for name, text in found.items() if canary in text] == [], canary
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(found["system.json"])["num_cpus"] >= 1
    assert "click" in json.loads(found["packages.json"])
    assert json.loads(found["environment.json"])["PILOTHOUSE_KEY"] == "***"
    assert "schema" in json.loads(found["state/schema.json"])["config"]
    assert json.loads(found["state/processes.json"])[0]["name"] == "gateway-0"
    assert "kept event" in found["logs/gateway-0.log"]
    assert "pilothouse_controlplane_snapshot_version" in found["metrics/controlplane.prom"]
    for name in ("api/documents.json", "state/documents.json"):
        assert len(json.loads(found[name])) == len(texts)
    assert json.loads(found["api/gateways.json"])["gateways"][0]["name"] == "gateway-0"
    problems = {
        each["file"]: each["problem"]
        for each in json.loads(found["manifest.json"])["files"]
        if each["problem"]
    }
    assert list(problems) == ["metrics/gateway-0.prom"]
    assert "does not answer" in result.stderr


def test_who_a_gateway_says_it_is_sees_the_key_for_that_gateway_and_never_the_callers(
    tmp_path: Path,
) -> None:
    state_dir, seen = tmp_path / "state", list[str | None]()
    own = "phk_0a0b0c0d0e0f_" + "g" * 43
    path = key_path(secrets_dir(state_dir), "gateway-0")
    path.parent.mkdir(parents=True)
    path.write_text(own)
    with (
        strange_server(401, "no", keys_seen=seen) as (address, asked),
        serve_control_plane(state_dir, AlwaysOnSettings(is_on=False)) as (url, opened),
    ):
        opened.observed.put_gateway(quiet_report(address=address, reported_at_unix_ns=wall_clock()))
        opened.observed.put_gateway(
            quiet_report("another", address=address, reported_at_unix_ns=wall_clock())
        )
        result = run(state_dir, "--output", str(tmp_path / "b.tar.gz"), url=url)

    assert result.exit_code == 0, result.output
    assert asked == ["/metrics", "/metrics"]
    assert seen == [None, f"Bearer {own}"]
    assert own not in "".join(members(tmp_path / "b.tar.gz").values())


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_a_bundle_has_the_metrics_of_a_gateway_that_asks_for_a_key(tmp_path: Path) -> None:
    state_dir, path = tmp_path / "state", tmp_path / "b.tar.gz"
    served = start_serve(state_dir, options=["--demo", "simulator", "--auth", "required"])
    try:
        served.wait_until_ready()
        assert httpx.get(f"{served.gateway_url}/metrics").status_code == 401
        key = tmp_path / "admin.key"
        bootstrap = [
            "access",
            "bootstrap",
            "--recover",
            "--state-dir",
            str(state_dir),
            "--out",
            str(key),
        ]
        assert CliRunner().invoke(main, bootstrap).exit_code == 0
        bundle = ["--key-file", str(key), "support-bundle", "--url", served.url,
                  "--state-dir", str(state_dir), "--output", str(path)]  # fmt: skip
        result = CliRunner().invoke(main, bundle)
    finally:
        assert served.stop() == 0

    assert result.exit_code == 0, result.output
    found = members(path)
    assert "pilothouse_" in found["metrics/gateway-0.prom"]
    problems = [each for each in json.loads(found["manifest.json"])["files"] if each["problem"]]
    assert problems == []


def test_with_everything_down_the_state_directory_still_tells(tmp_path: Path) -> None:
    state_dir, path = tmp_path / "state", tmp_path / "b.tar.gz"
    state_dir.mkdir()
    with serve_control_plane(state_dir):
        pass
    plant(state_dir)

    result = run(state_dir, "--output", str(path))

    assert result.exit_code == 0, result.output
    found = members(path)
    assert found["state/documents.json"].strip() == "[]"
    assert "kept event" in found["logs/gateway-0.log"]
    assert not any(name.startswith("api/") for name in found)
    assert "api/overview.json: AskError: no control plane answers" in result.stderr
    for canary in CANARIES:
        assert canary not in "".join(found.values())


def test_what_only_looks_like_a_line_end_tears_no_line_of_a_log_apart(tmp_path: Path) -> None:
    state_dir, path = tmp_path / "state", tmp_path / "b.tar.gz"
    (state_dir / "logs").mkdir(parents=True)
    line = {"process": "gateway", "logger": "dataplane.gateway", "event": "a\u2028b\u2029c\x85d"}
    log = json.dumps(line, ensure_ascii=False) + "\r\n" + json.dumps({"num": 2}) + "\n"
    (state_dir / "logs" / "gateway-0.log").write_text(log, newline="")

    run(state_dir, "--output", str(path))

    kept = members(path)["logs/gateway-0.log"].split("\n")
    assert [json.loads(each) for each in kept if each] == [line, {"num": 2}]


def test_without_anything_it_says_what_is_missing_and_is_written_all_the_same(
    tmp_path: Path,
) -> None:
    result = run(tmp_path / "absent", "--output", str(tmp_path / "b.tar.gz"))

    assert result.exit_code == 0
    assert "name it with --state-dir" in result.stderr
    assert "system.json" in members(tmp_path / "b.tar.gz")


@pytest.mark.parametrize(
    ("output", "exit_code", "said"),
    [("there.tar.gz", 2, "exists"), ("no/such/folder/b.tar.gz", 1, "cannot write")],
)
def test_a_file_that_cannot_be_written_is_said(
    tmp_path: Path, output: str, exit_code: int, said: str
) -> None:
    (tmp_path / "there.tar.gz").write_text("mine")

    result = run(tmp_path, "--output", str(tmp_path / output))

    assert result.exit_code == exit_code
    assert said in result.stderr
    assert (tmp_path / "there.tar.gz").read_text() == "mine"
