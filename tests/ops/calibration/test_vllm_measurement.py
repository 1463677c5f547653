import itertools
import threading
from pathlib import Path

import pytest

from ops.calibration.vllm_measurement import keeping_scrapes


def test_scrapes_are_kept_of_before_of_regular_times_and_of_behind(tmp_path: Path) -> None:
    numbers, has_three = itertools.count(), threading.Event()

    def scrape() -> str:
        number = next(numbers)
        if number == 3:
            has_three.set()
        return f"{number}"

    with keeping_scrapes(tmp_path / "metrics", scrape, every_seconds=0.01):
        assert (tmp_path / "metrics" / "0000.txt").read_text() == "0"
        assert has_three.wait(30)
    kept = sorted((tmp_path / "metrics").glob("*.txt"))
    assert [path.read_text() for path in kept] == [f"{number}" for number in range(next(numbers))]
    assert len(kept) >= 5


def test_a_scrape_that_fails_meanwhile_is_told_where_the_block_ends(tmp_path: Path) -> None:
    failed = threading.Event()

    def scrape() -> str:
        if (tmp_path / "metrics" / "0000.txt").exists():
            failed.set()
            raise ConnectionError("it is gone")
        return "before"

    with (
        pytest.raises(ConnectionError, match="it is gone"),
        keeping_scrapes(tmp_path / "metrics", scrape, every_seconds=0.01),
    ):
        assert failed.wait(30)
    assert [path.name for path in (tmp_path / "metrics").iterdir()] == ["0000.txt"]
