"""`apply`, `get` and `describe` as a person sees them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controlplane.bundled import Bundled, locate
from controlplane.cli import main
from controlplane.operator.observed import ObservedReplica
from tests.controlplane.config_documents import DEPLOYMENT, MODEL, SERVICE
from tests.controlplane.config_server import ConfigServer, serve_config

REPLICA = ObservedReplica(
    replica_id="chat-7f",
    deployment="chat",
    engine="openai",
    model_revision="smollm2@1",
    state="starting",
    reason="loading weights",
    stage="load",
    pid=None,
    address=None,
    metrics_address="127.0.0.1:40207",
    start_stages={},
    probed_at_unix_ns=None,
    observed_at_unix_ns=1,
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConfigServer]:
    with serve_config(tmp_path) as server:
        monkeypatch.setenv("PILOTHOUSE_URL", server.url)
        yield server


def run(*arguments: str | Path, text: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=text)


def written(folder: Path, *texts: str) -> Path:
    folder.mkdir()
    for index, text in enumerate(texts):
        (folder / f"{index}.yaml").write_text(text)
    return folder


@pytest.mark.usefixtures("server")
def test_a_folder_is_applied_whole(tmp_path: Path) -> None:
    folder = written(tmp_path / "conf", *SERVICE)
    (folder / "deeper").mkdir()
    (folder / "deeper" / "t.yml").write_text("kind: Tenant\nmetadata: {name: acme}\nspec: {}\n")
    (folder / ".hidden.yaml").write_text("not: read")
    (folder / "README.md").write_text("not read")

    result = run("apply", "-f", folder, "--reason", "first light")

    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "Model smollm2@1 created",
        "EngineConfig attached@1 created",
        "SLOContract chat@1 created",
        "AdmissionPolicy chat@1 created",
        "Deployment chat@1 created",
        "Tenant acme@1 created",
    ]
    assert result.stderr == ""
    assert "unchanged" in run("apply", "-f", folder).stdout


@pytest.mark.usefixtures("server")
def test_the_demo_can_be_applied() -> None:
    result = run("apply", "-f", locate(Bundled.DEMO))

    assert result.exit_code == 0, result.output
    assert sorted(line.split()[0] for line in result.stdout.splitlines()) == [
        "AdmissionPolicy", "Deployment", "EngineConfig", "Model", "SLOContract", "Tenant",
    ]  # fmt: skip


def test_wrong_documents_are_refused_without_asking_the_control_plane() -> None:
    result = run("apply", "-f", "-", "--url", "http://127.0.0.1:1", text=MODEL.replace("pa", "p"))

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "<stdin>:4:14: spec.artifact.pth: there is no such key here; did you mean path? "
        "Valid: package, file, path, url",
        "1 problem; nothing was applied",
    ]


@pytest.mark.usefixtures("server")
def test_what_only_the_control_plane_can_know_is_reported_the_same_way() -> None:
    result = run("apply", "-f", "-", text=DEPLOYMENT)

    assert result.exit_code == 2
    assert result.stderr.startswith("<stdin>:3:15: spec.model: there is no Model called smollm2")
    assert result.stderr.endswith("4 problems; nothing was applied\n")


@pytest.mark.usefixtures("server")
def test_a_dry_run_says_so() -> None:
    result = run("apply", "-f", "-", "--dry-run", text=MODEL)

    assert result.stdout == "Model smollm2@1 created\ndry run: nothing was changed\n"
    assert "there are no documents" in run("get").output


@pytest.mark.parametrize(
    "arguments",
    [("get",), ("describe", "model", "m"), ("apply", "-f", "-")],
    ids=lambda arguments: arguments[0],
)
def test_an_absent_control_plane_is_one_line_with_the_remedy(arguments: tuple[str, ...]) -> None:
    result = run(*arguments, "--url", "http://127.0.0.1:1", text=MODEL)

    assert result.exit_code == 5
    [line] = result.output.splitlines()
    assert line.startswith("Error: no control plane answers at http://127.0.0.1:1 (")
    assert "pilothouse serve" in line


def test_an_address_that_is_none_is_one_line_too() -> None:
    result = run("get", "--url", "127.0.0.1:8700")

    assert result.exit_code == 2
    assert result.output.startswith("Error: '127.0.0.1:8700' is no address of a control plane (")
    assert "http://127.0.0.1:8700" in result.output


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("absent.yaml", None, "cannot read {}: No such file or directory"),
        ("latin.yaml", b"# caf\xe9\n", "{} is not UTF-8 text"),
        ("empty.yaml", b"# nothing\n", "the files hold no documents"),
    ],
)
def test_files_that_cannot_be_read_are_named(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    result = run("apply", "-f", path)

    assert result.exit_code == 2
    assert said.format(path) in result.output


def test_a_folder_without_documents_is_an_error(tmp_path: Path) -> None:
    result = run("apply", "-f", tmp_path)

    assert result.exit_code == 2
    assert f"there are no .yaml, .yml, .json files under {tmp_path}" in result.output


@pytest.mark.usefixtures("server")
def test_kinds_are_taken_in_any_case_and_number_and_unknown_ones_list_the_valid() -> None:
    run("apply", "-f", "-", text=MODEL)

    for word in ("model", "MODELS", "Model"):
        assert "smollm2" in run("get", word).stdout
    result = run("get", "modle")
    assert result.exit_code == 2
    assert "did you mean Model? There are Models, EngineConfigs, SLOContracts" in result.output


@pytest.mark.usefixtures("server")
def test_a_list_shows_what_tells_documents_apart(tmp_path: Path) -> None:
    run("apply", "-f", written(tmp_path / "conf", *SERVICE), "--author", "ann")

    lines = run("get").stdout.splitlines()

    assert lines[0].split() == ["KIND", "NAME", "REVISION", "CREATED", "AUTHOR", "SUMMARY"]
    assert len(lines) == 6
    [deployment] = [line for line in lines if line.startswith("Deployment")]
    assert deployment.endswith("ann     2 x smollm2@1 on attached@1")


@pytest.mark.usefixtures("server")
def test_yaml_output_can_be_applied_again_without_changing_anything(tmp_path: Path) -> None:
    run("apply", "-f", written(tmp_path / "conf", *SERVICE))

    again = run("apply", "-f", "-", text=run("get", "-o", "yaml").stdout)

    assert again.exit_code == 0, again.output
    assert [line.split()[-1] for line in again.stdout.splitlines()] == ["unchanged"] * 5


@pytest.mark.usefixtures("server")
def test_json_output_holds_the_whole_revision() -> None:
    run("apply", "-f", "-", "--reason", "because", text=MODEL)

    [revision] = json.loads(run("get", "model", "smollm2", "-o", "json").stdout)

    assert (revision["kind"], revision["number"], revision["reason"]) == ("Model", 1, "because")
    assert len(revision["digest"]) == 64


def test_describe_shows_revision_history_and_what_a_deployment_stands_for(
    tmp_path: Path, server: ConfigServer
) -> None:
    run("apply", "-f", written(tmp_path / "conf", *SERVICE), "--reason", "first light")
    run("apply", "-f", "-", "--author", "bob", text=MODEL.replace("smollm2.gguf", "other.gguf"))

    assert "Replicas as last seen:\n  none\n" in run("describe", "deployment", "chat").stdout
    server.observed.set_replicas([REPLICA])
    shown = run("describe", "deployment", "chat").stdout

    replica = next(line for line in shown.splitlines() if "chat-7f" in line)
    for told in ("starting", "smollm2@1", "http://127.0.0.1:40207/metrics", "loading weights"):
        assert told in replica
    assert "Revision:    chat@1\n" in shown
    assert "Reason:      first light\n" in shown
    assert "Model:       smollm2@2\n" in shown
    assert "Generation:  2 (still at 0)\n" in shown
    assert "  replicas: 2\n" in shown
    assert "  2           " in shown
    assert "bob\n  1           " in shown
    assert "From" not in shown, "the deployment itself has one revision"
    pinned = run("describe", "model", "smollm2@1").stdout
    assert "path: /models/smollm2.gguf" in pinned
    assert "smollm2@2" in pinned
    changed = run("describe", "model", "smollm2").stdout
    assert changed.endswith(
        "From smollm2@1 to smollm2@2:\n"
        "  artifact.path: /models/smollm2.gguf -> /models/other.gguf\n"
    )


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("name", "exit_code", "said"),
    [
        ("nope", 4, "there is no Model nope"),
        ("nope@2", 4, "there is no Model nope@2"),
        ("nope@x", 2, "after @ comes the number of a revision"),
        ("../../healthz", 2, "'../../healthz' is not a name"),
    ],
)
def test_what_does_not_exist_is_said(name: str, exit_code: int, said: str) -> None:
    result = run("describe", "model", name)

    assert result.exit_code == exit_code
    assert said in result.output
