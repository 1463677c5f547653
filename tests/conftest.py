"""What holds for every test."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A machine that is busy is slow and not wrong: no test here is timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """What was imported stays: to look through it for garbage again and again took a tenth of the
    time of all tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Every test that awaits runs on what serves for real."""
    return "asyncio"


@pytest.fixture(scope="module")
def scripted_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The scripted engine is an installed plugin while the tests of a file run."""
    # Few tests have a gateway; the others need not import one.
    from tests.dataplane.gateway.running_gateway import scripted_plugin

    with scripted_plugin(tmp_path_factory.mktemp("plugin")):
        yield
