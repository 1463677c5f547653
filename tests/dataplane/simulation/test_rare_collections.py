import gc

import pytest

from dataplane.simulation.rare_collections import rare_collections


def test_the_collector_is_as_it_was_however_it_ends() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == (100_000, *before[1:])
        with rare_collections():
            assert gc.get_threshold() == (100_000, *before[1:])
    assert gc.get_threshold() == before
    with pytest.raises(ZeroDivisionError), rare_collections():
        raise ZeroDivisionError
    assert gc.get_threshold() == before


@pytest.mark.parametrize("threshold", [0, 200_000])
def test_a_collector_that_looks_even_less_often_is_left_alone(threshold: int) -> None:
    before = gc.get_threshold()
    gc.set_threshold(threshold)
    try:
        with rare_collections():
            assert gc.get_threshold()[0] == threshold
    finally:
        gc.set_threshold(*before)
