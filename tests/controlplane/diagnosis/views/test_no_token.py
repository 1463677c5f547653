"""That no token comes is said of no series that moves."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.no_token import cite_no_token
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window


@pytest.mark.parametrize(
    ("tokens", "is_cited"),
    [
        (series(Signal.GENERATION_TOKENS, 111, 111), True),
        (series(Signal.GENERATION_TOKENS, 111, 231), False),
        (series(Signal.GENERATION_TOKENS, 111), False),
        (series(Signal.GENERATION_RATE, 50, 0), True),
        (series(Signal.GENERATION_RATE, 50, 50), False),
    ],
    ids=["counter stands", "counter moves", "counter read once", "speed is none", "old speed"],
)
def test_only_a_series_that_shows_it_is_cited(tokens: Series, is_cited: bool) -> None:
    argument = Argument(window(tokens))
    cite_no_token(argument, tokens)
    assert bool(argument.verdict(Confidence.POSSIBLE).cited) is is_cited
