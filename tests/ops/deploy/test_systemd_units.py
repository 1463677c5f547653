"""The systemd units: accepted by systemd's own checks, and their commands run and answer."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dataplane.gateway.status import read_status
from tests.ops.deploy.installation import BIN, DEPLOY, Installation, run, running

pytestmark = pytest.mark.timeout(600)

UNITS = DEPLOY / "systemd"
SERVICES = sorted(path.stem for path in UNITS.glob("*.service"))
_MAX_EXPOSURE = "20"
"""In tenths, of 100: `systemd-analyze security` calls up to 2.0 OK, and 9.6 is what is usual."""


def place_units(folder: Path) -> list[Path]:
    """Copies that name the programs of this checkout."""
    placed = []
    for unit in (*UNITS.glob("*.service"), *UNITS.glob("*.socket")):
        path = folder / unit.name
        path.write_text(unit.read_text().replace("/opt/pilothouse/bin", str(BIN)))
        placed.append(path)
    return placed


def setting(unit: str, name: str) -> str:
    """The one value of a setting."""
    (value,) = re.findall(rf"^{name}=(.*)$", (UNITS / unit).read_text(), re.M)
    return str(value)


def argv_of(unit: str, name: str, replaced: dict[str, str]) -> list[str]:
    """A command line as systemd would run it, with what differs in this test replaced."""
    line = setting(unit, name).replace("/opt/pilothouse/bin", str(BIN))
    for old, new in replaced.items():
        assert old in line, f"{unit} {name} does not say {old}"
        line = line.replace(old, new)
    assert "$" not in line, line
    return shlex.split(line)


def test_systemd_finds_no_fault_in_any_unit(tmp_path: Path) -> None:
    units = [str(path) for path in place_units(tmp_path)]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=one", *units],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_systemd_finds_a_fault_that_is_put_in(tmp_path: Path) -> None:
    place_units(tmp_path)
    unit = tmp_path / "pilothouse-gateway.service"
    unit.write_text(unit.read_text().replace("Type=notify", "Type=notfy"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "notfy" in done.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_shut_in(tmp_path: Path, service: str) -> None:
    place_units(tmp_path)
    run(
        ["systemd-analyze", "security", "--no-pager", "--offline=true",
         f"--threshold={_MAX_EXPOSURE}", str(tmp_path / f"{service}.service")]
    )  # fmt: skip


def test_the_user_that_the_services_run_as_is_one_that_is_made(tmp_path: Path) -> None:
    made = run(["systemd-sysusers", "--dry-run", f"--root={tmp_path}",
                "--inline", *made_users()])  # fmt: skip
    assert "pilothouse" in made
    assert {setting(f"{service}.service", "User") for service in SERVICES} == {"pilothouse"}


def made_users() -> list[str]:
    lines = (UNITS / "pilothouse.sysusers").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_the_commands_of_the_units_run_answer_and_reload_without_a_gap(tmp_path: Path) -> None:
    here = Installation(tmp_path)
    state_dir = tmp_path / "state"
    states = {"${STATE_DIRECTORY}": str(state_dir)}
    run(argv_of("pilothouse-controlplane.service", "ExecStartPre", states))
    here.make_admin(state_dir)
    control_plane = argv_of(
        "pilothouse-controlplane.service", "ExecStart", states | {"8700": str(here.port)}
    )
    with running(control_plane, tmp_path / "controlplane.log"):
        assert here.has_answered(here.port), (tmp_path / "controlplane.log").read_text()
        here.make_gateway_key()
        check_gateway(here, tmp_path)


def check_gateway(here: Installation, folder: Path) -> None:
    gateway_dir = folder / "gateway"
    credentials = {"${CREDENTIALS_DIRECTORY}": str(folder)}
    state = {"${STATE_DIRECTORY}": str(gateway_dir)}
    told = state | credentials | {":8700": f":{here.port}"}
    gateway = argv_of("pilothouse-gateway.service", "ExecStart", told)
    listen = setting("pilothouse-gateway.socket", "ListenStream")
    tool = shutil.which("systemd-socket-activate")
    assert tool is not None
    address = listen.replace("8701", str(here.gateway_port))
    log_path = folder / "gateway.log"
    with running([tool, f"--listen={address}", *gateway], log_path) as first:
        assert here.has_answered(here.gateway_port), log_path.read_text()
        reload = argv_of("pilothouse-gateway.service", "ExecReload", state)
        run(reload)
        assert read_status(gateway_dir).pid != first.pid, "done means that the new one serves"
        assert first.wait(60) == 0, log_path.read_text()
        assert here.has_answered(here.gateway_port), log_path.read_text()
        successor = read_status(gateway_dir).pid
        os.kill(successor, signal.SIGTERM)
        wait_until(lambda: not Path(f"/proc/{successor}/exe").exists())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 150
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
