"""Dashboards are put into a Grafana over its documented HTTP API."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from dashboards.__main__ import rendered
from dashboards.publish import FOLDER_TITLE, FOLDER_UID, GrafanaServer, PublishError, publish
from tests.dashboards.grafana_stand_in import EDITOR, VIEWER, GrafanaState, grafana_stand_in
from tests.ports import free_ports


@pytest.fixture
def grafana() -> Iterator[GrafanaState]:
    with grafana_stand_in() as state:
        yield state


def put(grafana: GrafanaState, token: str = EDITOR, message: str = "first") -> list[str]:
    server = GrafanaServer(grafana.url, token)
    return [each.url for each in publish(rendered().values(), server, message)]


def test_all_are_put_into_a_folder_of_their_own(grafana: GrafanaState) -> None:
    urls = put(grafana)
    assert grafana.folders == {FOLDER_UID: FOLDER_TITLE}
    assert {f"{uid}.json" for uid in grafana.dashboards} == set(rendered())
    assert set(grafana.folder_of.values()) == {FOLDER_UID}
    assert urls[0] == f"{grafana.url}/d/pilothouse-fleet/some-slug"
    assert set(grafana.messages) == {"first"}


def test_putting_them_again_makes_new_versions_and_no_second_folder(grafana: GrafanaState) -> None:
    put(grafana)
    put(grafana, message="second")
    assert set(grafana.versions.values()) == {2}
    assert grafana.num_folders_made == 1


def test_a_grafana_below_a_path_is_reached_there() -> None:
    with grafana_stand_in("/grafana") as below:
        urls = put(below)
        assert len(below.dashboards) == len(urls) == len(rendered())
        assert urls[0] == f"{below.url}/d/pilothouse-fleet/some-slug"


@pytest.mark.parametrize(
    ("token", "told"), [("wrong", "token is not valid"), (VIEWER, "needs the role Editor")]
)
def test_a_token_that_may_not_is_told_with_what_it_needs(
    grafana: GrafanaState, token: str, told: str
) -> None:
    with pytest.raises(PublishError, match=told):
        put(grafana, token)
    assert grafana.dashboards == {}


def test_one_that_grafana_reads_from_a_file_is_refused_by_name(grafana: GrafanaState) -> None:
    grafana.provisioned.add("pilothouse-admission")
    with pytest.raises(PublishError, match=r"pilothouse-admission: .*provisioned"):
        put(grafana)
    assert "pilothouse-fleet" in grafana.dashboards


def test_nobody_who_answers_is_told_so() -> None:
    [port] = free_ports(1)
    with pytest.raises(PublishError, match="no Grafana answers"):
        publish([], GrafanaServer(f"http://127.0.0.1:{port}", EDITOR), "")


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def test_another_server_is_not_taken_for_a_grafana() -> None:
    with HTTPServer(("127.0.0.1", 0), _Page) as server:
        Thread(target=server.handle_request).start()
        with pytest.raises(PublishError, match="is it a Grafana"):
            publish([], GrafanaServer(f"http://127.0.0.1:{server.server_port}", EDITOR), "")


@pytest.mark.parametrize("url", ["grafana:3000", "ftp://grafana", "http://", "http://h:port"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(PublishError, match="no address of a Grafana"):
        GrafanaServer(url, EDITOR)
