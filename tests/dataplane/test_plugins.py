"""Plugins are found by entry point, from wheels that nobody here knows, and never in silence."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import dataplane.hooks
from dataplane.plugins import PluginError, PluginGroup, list_plugins, load_plugins
from dataplane.policy import ReplicaEndpoint

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path, name: str, entry_point: str, source: str) -> Path:
    """A wheel as a third party would make one: its own distribution, its own build."""
    package = name.replace("-", "_")
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(textwrap.dedent(source))
    (folder / "pyproject.toml").write_text(
        textwrap.dedent(f"""
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"
        [project]
        name = "{name}"
        version = "1.2.3"
        [project.entry-points."pilothouse.gateway"]
        {entry_point} = "{package}"
        [tool.hatch.build.targets.wheel]
        packages = ["{package}"]
        """)
    )
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return next((folder / "dist").glob("*.whl"))


def install(wheel: Path, site: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
         "--disable-pip-version-check", "--target", str(site), str(wheel)],
        check=True,
        capture_output=True,
    )  # fmt: skip


ECHO = """
    from dataplane.hooks import hookimpl

    @hookimpl
    def pilothouse_create_engine_client(endpoint):
        return "a client of echo" if endpoint.engine == "echo" else None
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on sys.path into which wheels can be installed."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    return site


def test_a_third_party_wheel_is_found_and_serves_its_engine(
    third_party: Path, tmp_path: Path
) -> None:
    install(build_wheel(tmp_path / "echo", "echo-engine", "echo", ECHO), third_party)
    assert ("echo", "echo-engine", "1.2.3") in [
        (info.name, info.distribution, info.version) for info in list_plugins(PluginGroup.GATEWAY)
    ]
    manager = load_plugins(PluginGroup.GATEWAY, ["echo"], dataplane.hooks, "pilothouse")
    endpoint = ReplicaEndpoint(replica_id="e1", engine="echo", address="")
    assert manager.hook.pilothouse_create_engine_client(endpoint=endpoint) == "a client of echo"


def test_a_misspelt_hook_stops_the_start_and_lists_the_hooks_that_exist(
    third_party: Path, tmp_path: Path
) -> None:
    source = ECHO.replace("engine_client", "engine_cilent")
    install(build_wheel(tmp_path / "typo", "typo-engine", "typo", source), third_party)
    with pytest.raises(PluginError, match=r"'typo'.*engine_cilent") as caught:
        load_plugins(PluginGroup.GATEWAY, ["typo"], dataplane.hooks, "pilothouse")
    assert "pilothouse_create_engine_client" in str(caught.value)


def test_a_name_taken_twice_stops_the_start_and_names_both_owners(
    third_party: Path, tmp_path: Path
) -> None:
    install(build_wheel(tmp_path / "a", "first-echo", "echo", ECHO), third_party)
    install(build_wheel(tmp_path / "b", "second-echo", "echo", ECHO), third_party)
    with pytest.raises(PluginError, match=r"taken twice") as caught:
        load_plugins(PluginGroup.GATEWAY, ["openai"], dataplane.hooks, "pilothouse")
    assert "first-echo" in str(caught.value)
    assert "second-echo" in str(caught.value)


def test_a_broken_plugin_that_nobody_uses_is_listed_and_harms_nobody(
    third_party: Path, tmp_path: Path
) -> None:
    broken = build_wheel(tmp_path / "broken", "broken-engine", "broken", "import no_such_module")
    install(broken, third_party)
    assert "broken" in [info.name for info in list_plugins(PluginGroup.GATEWAY)]
    load_plugins(PluginGroup.GATEWAY, ["openai"], dataplane.hooks, "pilothouse")
    with pytest.raises(PluginError, match=r"'broken'.*no_such_module"):
        load_plugins(PluginGroup.GATEWAY, ["broken"], dataplane.hooks, "pilothouse")


def test_an_unknown_name_is_answered_with_the_nearest_and_with_those_installed() -> None:
    with pytest.raises(PluginError, match=r"did you mean 'openai'\?") as caught:
        load_plugins(PluginGroup.GATEWAY, ["opennai"], dataplane.hooks, "pilothouse")
    assert "paged" in str(caught.value)


def test_only_the_plugins_that_are_named_are_imported() -> None:
    program = (
        "import sys, dataplane.hooks;"
        "from dataplane.plugins import *;"
        "load_plugins(PluginGroup.GATEWAY, ['openai'], dataplane.hooks, 'pilothouse');"
        "print('pilothouse_openai' in sys.modules, 'pilothouse_paged' in sys.modules,"
        " 'torch' in sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert output.stdout.split() == ["True", "False", "False"]


def test_importing_the_control_plane_never_imports_torch() -> None:
    program = (
        "import pkgutil, importlib, sys, controlplane\n"
        "for module in pkgutil.walk_packages(controlplane.__path__, 'controlplane.'):\n"
        "    importlib.import_module(module.name)\n"
        "print('torch' in sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert output.stdout.strip() == "False"
