"""The guide for systemd: its commands, in its order, on a machine that has nothing yet.

systemd's own part is played here: a unit of Type=notify counts as started once it says so.
"""

import re
import shlex
import shutil
import socket
import textwrap
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from controlplane.store.connection import DatabaseKind
from controlplane.store.database import open_database
from controlplane.store.users import has_admin
from dataplane.access import key_id_of
from tests.ops.deploy.installation import BIN, DEPLOY, ROOT, Installation, run, running
from tests.ops.deploy.test_systemd_units import SERVICES, argv_of, setting
from tests.postgresql import running_cluster

pytestmark = pytest.mark.timeout(600)

GUIDE = (DEPLOY / "README.md").read_text().partition("## systemd")[2].partition("## ")[0]
STEPS = [
    textwrap.dedent(block).strip().splitlines()
    for block in re.findall(r"^   ```\n(.*?)^   ```$", GUIDE, re.M | re.S)
]
AS_ITS_USER = "setpriv --reuid pilothouse --regid pilothouse --clear-groups "
_START_SECONDS = 120


def test_what_the_demos_documents_name_is_installed_in_the_first_step() -> None:
    (package,) = re.findall(r"package: (\w+)", (ROOT / "ops" / "demo" / "model.yaml").read_text())
    pinned = f"{package.replace('_', '-')}=="
    (line,) = [line for line in STEPS[0] if pinned in line]
    version = line.partition(pinned)[2]
    assert f"{pinned}{version}" in (ROOT / "ops" / "setup.sh").read_text()


def test_the_second_step_places_the_units_and_what_they_point_to(tmp_path: Path) -> None:
    for line in STEPS[1]:
        for command in line.split(" && "):
            if command.startswith("install "):
                place(command, tmp_path)
    for service in SERVICES:
        assert (tmp_path / "etc/systemd/system" / f"{service}.service").is_file()
        documentation = setting(f"{service}.service", "Documentation").removeprefix("file:/")
        assert (tmp_path / documentation).is_file()


def place(command: str, root: Path) -> None:
    """Run it with `root` before every absolute path."""
    for folder in ("usr/lib/sysusers.d", "etc/systemd/system"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    run(["bash", "-c", re.sub(r" /", f" {root}/", command)])


def test_the_third_and_fourth_step_end_with_documents_that_are_enforced(tmp_path: Path) -> None:
    here = Installation(tmp_path / "etc" / "pilothouse")
    demo = shutil.copytree(ROOT / "ops" / "demo", tmp_path / "demo")
    deployment = demo / "deployment.yaml"
    deployment.write_text(re.sub(r"replicas: \d+", "replicas: 0", deployment.read_text()))
    with ExitStack() as units:
        for line in STEPS[2] + STEPS[3]:
            if line.startswith("systemctl enable --now pilothouse-controlplane"):
                start_control_plane(units, here, tmp_path)
            elif line.startswith("systemctl enable --now pilothouse-gateway.socket"):
                start_gateway(units, here, tmp_path)
            else:
                run_here(line, here, tmp_path)
        get = "/opt/pilothouse/bin/pilothouse --key-file /etc/pilothouse/admin.key get deployments"
        assert "smollm2" in run_here(get, here, tmp_path)


def test_with_postgresql_the_first_admin_is_let_in_by_the_guides_own_line(
    tmp_path: Path,
) -> None:
    (line,) = re.findall(r"^```\n(PILOTHOUSE_CONFIG_URL_FILE=.*)\n```$", GUIDE, re.M)
    credential = setting("postgresql.conf", "LoadCredential").partition(":")[2]
    assert f"PILOTHOUSE_CONFIG_URL_FILE={credential} " in line
    here = Installation(tmp_path / "etc")
    here.folder.mkdir()
    with running_cluster() as cluster:
        url = cluster.url(cluster.create())
        (here.folder / Path(credential).name).write_text(url)
        run_here(line, here, tmp_path)
        database = open_database(url, DatabaseKind.CONFIG)
        with closing(database), database.reading() as session:
            assert has_admin(session)
    assert key_id_of(here.admin_key.read_text().strip()) is not None


def run_here(line: str, here: Installation, root: Path) -> str:
    """One line of the guide, with the paths and ports of this test."""
    line = line.removeprefix(AS_ITS_USER).replace("-f ops/demo", f"-f {root / 'demo'}")
    line = line.replace("/opt/pilothouse/bin", str(BIN))
    line = line.replace("/etc/pilothouse", str(here.folder))
    line = line.replace("/var/lib/pilothouse", str(root / "state"))
    assert "systemctl" not in line, line
    return run(["bash", "-c", line], {"PILOTHOUSE_URL": f"http://127.0.0.1:{here.port}"})


def start_control_plane(units: ExitStack, here: Installation, root: Path) -> None:
    unit, states = "pilothouse-controlplane.service", {"${STATE_DIRECTORY}": str(root / "state")}
    assert setting(unit, "Type") == "notify"
    run(argv_of(unit, "ExecStartPre", states))
    argv = argv_of(unit, "ExecStart", states | {"8700": str(here.port)})
    manager = units.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    manager.bind(str(root / "notify"))
    manager.settimeout(_START_SECONDS)
    told = {"NOTIFY_SOCKET": str(root / "notify")}
    units.enter_context(running(argv, root / "controlplane.log", told))
    assert b"READY=1" in manager.recv(4096)


def start_gateway(units: ExitStack, here: Installation, root: Path) -> None:
    credential = setting("pilothouse-gateway.service", "LoadCredential").partition(":")[2]
    assert credential == "/etc/pilothouse/gateway.key"
    told = {
        "${STATE_DIRECTORY}": str(root / "gateway"),
        "${CREDENTIALS_DIRECTORY}": str(here.folder),
        ":8700": f":{here.port}",
    }
    argv = argv_of("pilothouse-gateway.service", "ExecStart", told)
    address = setting("pilothouse-gateway.socket", "ListenStream")
    listen = address.replace("8701", str(here.gateway_port))
    activate = shlex.split(f"systemd-socket-activate --listen={listen}")
    units.enter_context(running([*activate, *argv], root / "gateway.log"))
    assert here.has_answered(here.gateway_port), (root / "gateway.log").read_text()
