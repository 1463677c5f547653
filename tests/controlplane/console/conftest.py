"""A console to read pages of: the API and its console, without a process of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ops.seeded_console import close_app, create_app
from tests.databases import SqliteDatabases


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    """Nothing is in it yet."""
    made = create_app(tmp_path, SqliteDatabases(tmp_path).urls())
    yield made
    close_app(made)


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    """A browser that stays where it is sent from."""
    return TestClient(
        app,
        base_url="http://127.0.0.1",
        headers={"accept": "text/html"},
        follow_redirects=False,
    )
