"""Containerfile, compose and prometheus.yml: accepted by their checkers, and true to the code."""

import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from controlplane.slo.prometheus.alerts_of_alerting import ALERTMANAGER_JOB
from controlplane.slo.prometheus.alerts_of_processes import CONTROL_PLANE_JOB, GATEWAY_JOB
from ops.render_alerts import LINKS
from tests.ops.deploy.build_context import IgnoreFile, copies_before, replay
from tests.ops.deploy.installation import BIN, DEPLOY, ROOT, Installation, run, running
from tests.programs import find_program

pytestmark = pytest.mark.timeout(600)

COMPOSE = DEPLOY / "compose" / "compose.yaml"
CONTAINERFILE = DEPLOY / "container" / "Containerfile"
PROMETHEUS = DEPLOY / "prometheus" / "prometheus.yml"
OURS = {"schema", "first-admin", "control-plane", "keys", "gateway"}
HARMLESS_URLS = {"PILOTHOUSE_HEALTH_URL", "PILOTHOUSE_CONSOLE_URL"}
ONE_SHOT = {"schema", "first-admin", "keys"}


def compose() -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe").load(COMPOSE)
    return document


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


def test_hadolint_finds_no_fault_in_the_containerfile() -> None:
    run([str(BIN / "hadolint"), str(CONTAINERFILE)])


def test_the_image_runs_as_nobody_special_and_checks_itself() -> None:
    stage = CONTAINERFILE.read_text().rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001:10001$", stage, re.M)
    assert re.search(
        r'^HEALTHCHECK .*\\\n  CMD \["python", "/opt/pilothouse/healthcheck.py"\]$', stage, re.M
    )


def test_all_that_the_containerfile_copies_is_there_and_not_ignored() -> None:
    text = CONTAINERFILE.read_text()
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    sources = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.M)
        for source in line.split()[:-1]
    ]
    assert "controlplane" in sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignore, source


def test_the_wheel_that_is_built_in_the_image_holds_all_that_it_holds_elsewhere(
    tmp_path: Path,
) -> None:
    source = tmp_path / "src"
    copies = copies_before(CONTAINERFILE.read_text(), "RUN pip install --constraint")
    ignored = IgnoreFile((ROOT / ".dockerignore").read_text().splitlines())
    replay(copies, ROOT, ignored, source)

    built = files_of_the_wheel(source, tmp_path / "in-the-image")

    assert "controlplane/demo/model.yaml" in built
    assert built == files_of_the_wheel(ROOT, tmp_path / "elsewhere")


def files_of_the_wheel(source: Path, out: Path) -> set[str]:
    """Build it from `source` alone."""
    done = subprocess.run(
        [BIN / "python", "-m", "hatchling", "build", "-t", "wheel", "-d", out],
        cwd=source, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_what_an_ignore_file_hides_is_not_copied(tmp_path: Path) -> None:
    for name in ("kept/a.py", "kept/__pycache__/a.pyc", "other/b.py"):
        (tmp_path / "context" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "context" / name).write_text(name)
    ignored = IgnoreFile(["# all but", "*", "!kept", "**/__pycache__"])
    containerfile = "ARG X\nFROM x AS build\nCOPY kept ./k\nCOPY other ./o\nRUN build\nFROM y\n"
    kept, other = copies_before(containerfile, "RUN build")

    replay([kept], tmp_path / "context", ignored, tmp_path / "image")
    with pytest.raises(FileNotFoundError, match="COPY other"):
        replay([other], tmp_path / "context", ignored, tmp_path / "image")

    files = [each for each in (tmp_path / "image").rglob("*") if each.is_file()]
    assert [str(each.relative_to(tmp_path / "image")) for each in files] == ["k/a.py"]


def test_torch_is_installed_by_its_pin_and_before_the_rest() -> None:
    text = CONTAINERFILE.read_text()
    assert len(re.findall(r"^torch==\S+$", (ROOT / "constraints.txt").read_text(), re.M)) == 1
    assert text.index("^torch==") < text.index("--constraint constraints.txt")


def test_compose_is_what_its_schema_allows() -> None:
    run([str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE)])


def test_a_misspelt_key_would_be_found(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("healthcheck:", "helthcheck:", 1))
    done = subprocess.run(
        [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", wrong],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1


def test_who_runs_on_is_watched_and_who_runs_once_is_waited_for() -> None:
    for name, service in services().items():
        assert ("healthcheck" in service) != (name in ONE_SHOT), name
        assert ("restart" in service) != (name in ONE_SHOT), name
        for other, wait in service.get("depends_on", {}).items():
            once = "service_completed_successfully"
            assert wait["condition"] == (once if other in ONE_SHOT else "service_healthy")


def test_secrets_are_files_and_never_values() -> None:
    declared = compose()["secrets"]
    assert all(set(secret) == {"file"} for secret in declared.values())
    for name, service in services().items():
        for key, value in service.get("environment", {}).items():
            is_secret = re.search("PASSWORD|KEY|SECRET|TOKEN|DATABASE|_URL", key)
            harmless = key.endswith("_FILE") or key in HARMLESS_URLS
            assert not is_secret or harmless, f"{name}: {key}={value}"
        assert set(service.get("secrets", [])) <= declared.keys()


def test_what_is_ours_can_do_nothing_beyond_its_own_volumes() -> None:
    for name in OURS:
        service = services()[name]
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_ports_are_open_to_this_machine_alone() -> None:
    published = [port for service in services().values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_secrets_are_made_once_and_fit_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    for _ in range(2):
        run([str(DEPLOY / "compose" / "make-secrets.sh"), str(folder)])
    made = {path.name: path.read_text().strip() for path in folder.iterdir()}
    assert set(made) == set(compose()["secrets"]) - {"watchdog_url"}
    assert (
        made["database_url"]
        == f"postgresql://pilothouse:{made['postgres_password']}@postgres/pilothouse"
    )
    assert folder.stat().st_mode & 0o077 == 0


def test_promtool_finds_no_fault_and_every_target_answers_where_it_is_sought(
    tmp_path: Path,
) -> None:
    key = tmp_path / "viewer.key"
    key.write_text("none")
    placed = tmp_path / "prometheus.yml"
    placed.write_text(PROMETHEUS.read_text().replace("/etc/prometheus/key/viewer.key", str(key)))
    run([find_program("promtool"), "check", "config", str(placed)])
    text = PROMETHEUS.read_text()
    for job in ("controlplane", "gateway", "replica", "observed"):
        assert f"job_name: pilothouse-{job}" in text


def test_alerts_find_their_way_from_prometheus_to_the_control_plane() -> None:
    scraped: dict[str, Any] = YAML(typ="safe").load(PROMETHEUS)
    (manager,) = scraped["alerting"]["alertmanagers"]
    (address,) = manager["static_configs"][0]["targets"]
    assert f"http://{address}/-/ready" in services()["alertmanager"]["healthcheck"]["test"]
    assert {job["job_name"] for job in scraped["scrape_configs"]} >= {
        CONTROL_PLANE_JOB,
        GATEWAY_JOB,
        ALERTMANAGER_JOB,
    }


def test_own_alerts_lead_where_those_of_prometheus_do_and_the_databases_stay_told() -> None:
    environment = services()["control-plane"]["environment"]
    leads_to = environment["PILOTHOUSE_CONSOLE_URL"]
    assert leads_to == f"${{PILOTHOUSE_CONSOLE_URL:-{LINKS.console_url}}}"
    assert environment.keys() > services()["schema"]["environment"].keys()


def test_alertmanagers_key_lies_where_its_configuration_looks_for_it() -> None:
    config: dict[str, Any] = YAML(typ="safe").load(ROOT / "alerts" / "alertmanager.yml")
    webhooks = [hook for each in config["receivers"] for hook in each.get("webhook_configs", [])]
    shown = {hook["http_config"]["authorization"]["credentials_file"] for hook in webhooks}
    mounted = services()["alertmanager"]["volumes"]
    assert shown == {"/etc/alertmanager/key/alertmanager.key"}
    assert "alerting-key:/etc/alertmanager/key:ro" in mounted
    assert "alerting-key:/var/lib/pilothouse-alerting-key" in services()["keys"]["volumes"]
    assert {hook["url"].rpartition("/api/")[0] for hook in webhooks} == {"http://127.0.0.1:8700"}


def replaced(words: list[str], pairs: dict[str, str]) -> list[str]:
    """A command with other paths and ports; each pair must be in it."""
    for old, new in pairs.items():
        assert any(old in word for word in words), f"{words} does not say {old}"
        words = [word.replace(old, new) for word in words]
    return words


def test_the_commands_of_the_containers_run_and_answer_their_health_check(tmp_path: Path) -> None:
    here = Installation(tmp_path)
    state_dir = tmp_path / "state"
    environment = {"PILOTHOUSE_STATE_DIR": str(state_dir)}
    pilothouse = str(BIN / "pilothouse")
    every = services()
    run([pilothouse, *every["schema"]["command"]], environment)
    here.make_admin(state_dir)
    ports = {"0.0.0.0": "127.0.0.1", "8700": str(here.port)}
    control_plane = [pilothouse, *replaced(every["control-plane"]["command"], ports)]
    with running(control_plane, tmp_path / "controlplane.log", environment):
        assert here.has_answered(here.port), (tmp_path / "controlplane.log").read_text()
        check_keys(here, every["keys"]["command"][0])
        paths = {
            "/var/lib/pilothouse-gateway": str(tmp_path / "gateway"),
            "/var/lib/pilothouse-keys": str(tmp_path),
            "8701": str(here.gateway_port),
        }
        words = replaced(every["gateway"]["command"], ports | paths)
        entrypoint = [str(BIN / "python"), *every["gateway"]["entrypoint"][1:]]
        with running([*entrypoint, *words], tmp_path / "gateway.log"):
            assert here.has_answered(here.gateway_port), (tmp_path / "gateway.log").read_text()


def check_keys(here: Installation, script: str) -> None:
    """The one-shot makes every key, and does nothing the second time."""
    metrics_dir, alerting_dir = here.folder / "m", here.folder / "a"
    paths = {
        "/var/lib/pilothouse-keys": str(here.folder),
        "/var/lib/pilothouse-metrics-key": str(metrics_dir),
        "/var/lib/pilothouse-alerting-key": str(alerting_dir),
    }
    (script,) = replaced([script], paths)
    metrics_dir.mkdir()
    alerting_dir.mkdir()
    environment = {
        "PATH": f"{BIN}:/usr/bin:/bin",
        "PILOTHOUSE_URL": f"http://127.0.0.1:{here.port}",
        "PILOTHOUSE_KEY_FILE": str(here.admin_key),
    }
    for _ in range(2):
        run(["/bin/sh", "-ec", script], environment)
    shown = [metrics_dir / "viewer.key", alerting_dir / "alertmanager.key"]
    assert [each.stat().st_mode & 0o777 for each in shown] == [0o444, 0o444]
    assert here.gateway_key.stat().st_mode & 0o077 == 0
    assert len({each.read_text() for each in (here.gateway_key, *shown)}) == 3
