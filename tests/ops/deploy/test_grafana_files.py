"""What Grafana is given: the data source, the dashboards, and a place in compose."""

from typing import Any

from ruamel.yaml import YAML

from dashboards.__main__ import FOLDER, LINKS
from dashboards.publish import FOLDER_TITLE, FOLDER_UID
from dataplane import names
from tests.ops.deploy.installation import BIN, DEPLOY, run

COMPOSE = DEPLOY / "compose" / "compose.yaml"
BESIDE = DEPLOY / "compose" / "grafana.yaml"


def load(*parts: str) -> Any:
    return YAML(typ="safe").load(DEPLOY.joinpath(*parts))


def datasource() -> dict[str, Any]:
    [found] = load("grafana", "datasources", "prometheus.yaml")["datasources"]
    return dict(found)


def grafana() -> dict[str, Any]:
    return dict(load("compose", "grafana.yaml")["services"]["grafana"])


def test_compose_is_what_its_schema_allows() -> None:
    run([str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(BESIDE)])


def test_the_data_source_is_the_prometheus_of_compose_and_knows_how_often_it_scrapes() -> None:
    prometheus = load("prometheus", "prometheus.yml")
    assert datasource()["type"] == "prometheus"
    port = datasource()["url"].rpartition(":")[2]
    assert f"127.0.0.1:{port}:{port}" in load("compose", "compose.yaml")["services"][
        "control-plane"
    ]["ports"]  # fmt: skip
    assert datasource()["jsonData"]["timeInterval"] == prometheus["global"]["scrape_interval"]


def test_exemplars_are_kept_and_lead_to_the_page_of_a_request() -> None:
    [destination] = datasource()["jsonData"]["exemplarTraceIdDestinations"]
    assert destination["name"] == names.LABEL_TRACE_ID
    assert destination["url"] == f"{LINKS.console_url}/requests/$${{__value.raw}}"
    command = load("compose", "compose.yaml")["services"]["prometheus"]["command"]
    assert "--enable-feature=exemplar-storage" in command


def test_dashboards_lie_where_they_are_sought_and_in_the_folder_that_pushing_uses() -> None:
    [provider] = load("grafana", "dashboards", "pilothouse.yaml")["providers"]
    assert (provider["folderUid"], provider["folder"]) == (FOLDER_UID, FOLDER_TITLE)
    mounted = dict(
        reversed(each.removesuffix(":ro").rsplit(":", 1)) for each in grafana()["volumes"]
    )
    assert "dashboards/generated" in mounted[provider["options"]["path"]]
    assert (COMPOSE.parent / "../../../dashboards/generated").resolve() == FOLDER
    for kind in ("datasources", "dashboards"):
        assert mounted[f"/etc/grafana/provisioning/{kind}"] == f"../grafana/{kind}"
        assert list((DEPLOY / "grafana" / kind).iterdir())


def test_grafana_can_do_no_more_than_it_needs_and_its_password_is_a_file() -> None:
    service = grafana()
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    [secret] = service["secrets"]
    assert service["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"] == f"/run/secrets/{secret}"
    ports = load("compose", "grafana.yaml")["services"]["control-plane"]["ports"]
    assert all(port.startswith("127.0.0.1:") for port in ports)
