"""One served installation, shared by the tests of this folder that only send requests to it."""

from collections.abc import Iterator

import pytest

from tests.e2e.served import Served, start_serve


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One installation for every test that only sends requests to it."""
    installation = start_serve(tmp_path_factory.mktemp("served") / "state")
    try:
        installation.wait_until_ready()
        yield installation
    finally:
        status = installation.stop()
    assert status == 0, installation.log_path.read_text()
