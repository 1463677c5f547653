"""The edges that are known are those of histograms that the tables read."""

import pytest

from dataplane.engine_metrics.bucket_edges import KNOWN_EDGES
from dataplane.engine_metrics.signal import SignalKind
from dataplane.engine_metrics.tables import TABLES

_BY_NAME = {alias.exported: alias for table in TABLES for alias in table.aliases}


@pytest.mark.parametrize("name", sorted(KNOWN_EDGES))
def test_each_is_a_histogram_that_is_read_under_that_name(name: str) -> None:
    assert _BY_NAME[name].signal.terms.kind is SignalKind.HISTOGRAM
    assert _BY_NAME[name].until is None
    edges = KNOWN_EDGES[name]
    assert list(edges) == sorted(set(edges))
    assert edges[0] > 0
