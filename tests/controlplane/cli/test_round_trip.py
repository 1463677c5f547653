"""Export, wipe, import: the same digests, and a plan that has nothing to do, on each database."""

from pathlib import Path

from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import create_or_open_database
from tests.controlplane.config_documents import DEPLOYMENT, DESIGN_POLICY, MODEL, SERVICE
from tests.controlplane.config_server import ConfigServer, serve_config
from tests.databases import Databases

IN_STEPS = DEPLOYMENT.replace(
    "replicas: 2", "replicas: 2, rollout: {steps: [{share: 5%, for: 10m}]}"
)
BATCHES = (
    (*SERVICE[:-1], IN_STEPS),
    ("kind: Tenant\nmetadata: {name: acme}\nspec: {tier: gold}\n",),
    (MODEL.replace("smollm2.gguf", "other.gguf"),),
    (DESIGN_POLICY.replace("64", "65"),),
)


def run(server: ConfigServer, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments), "--url", server.url])


def history(server: ConfigServer) -> dict[str, list[tuple[int, str]]]:
    found = {}
    for each in server.http.get("/api/v1/config").json():
        path = f"/api/v1/config/{each['kind']}/{each['name']}/revisions"
        found[path] = [(one["number"], one["digest"]) for one in server.http.get(path).json()]
    return found


def test_the_round_trip_gives_the_same_digests_and_nothing_to_do(
    databases: Databases, tmp_path: Path
) -> None:
    conf = tmp_path / "conf"
    (tmp_path / "new").mkdir()
    with serve_config(tmp_path, databases.open(DatabaseKind.CONFIG)) as old:
        for texts in BATCHES:
            files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(texts)]
            old.http.post("/api/v1/apply", json={"files": files}).raise_for_status()
        assert run(old, "export", "-o", conf).exit_code == 0
        before = history(old)

    empty = create_or_open_database(databases.empty_url(), DatabaseKind.CONFIG)
    with serve_config(tmp_path / "new", empty) as new:
        imported = run(new, "import", conf)
        planned = run(new, "plan", "-f", conf, "--check")

        assert imported.exit_code == 0, imported.output
        assert history(new) == before
        assert planned.exit_code == 0, planned.output
        assert "nothing to do" in planned.output.splitlines()[-1]
