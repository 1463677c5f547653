import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.leases.length_sketch import LengthSketch
from dataplane.leases.output_lengths import MIN_KNOWN, OutputLengths


@given(
    st.lists(st.integers(0, 200_000), min_size=1, max_size=300),
    st.floats(0.01, 1, allow_nan=False),
)
def test_a_quantile_is_that_of_all_values_or_up_to_two_percent_more(
    lengths: list[int], share: float
) -> None:
    sketch = LengthSketch()
    for length in lengths:
        sketch.add(length)
    found = sketch.quantile(share)
    assert found is not None
    at_most = sum(length <= found for length in lengths)
    assert at_most >= share * len(lengths) - 1e-9
    below = found / 1.02 - 1
    assert sum(length < below for length in lengths) < share * len(lengths)


def test_what_came_lately_counts_for_more_than_all_before() -> None:
    sketch = LengthSketch(remembered=100)
    for length in [50] * 10_000 + [900] * 400:
        sketch.add(length)
    median = sketch.quantile(0.5)
    assert median is not None
    assert 900 <= median <= 918
    assert sketch.num_added == 10_400


def test_a_sketch_stays_small_however_much_is_added() -> None:
    sketch, stream = LengthSketch(), random.Random(7)
    for _ in range(50_000):
        sketch.add(int(stream.lognormvariate(6, 2)))
    assert len(sketch._counts) < 700


def test_without_any_there_is_no_quantile_and_none_of_a_share_that_is_none() -> None:
    assert LengthSketch().quantile(0.9) is None
    with pytest.raises(ValueError, match="no share"):
        LengthSketch().quantile(0)


def test_a_class_of_which_few_have_ended_is_expected_to_take_the_maximum_and_says_so() -> None:
    lengths = OutputLengths()
    for _ in range(MIN_KNOWN - 1):
        lengths.note("chat", 20)
    expected = lengths.expect("chat", 0.9, 512)
    assert (expected.num_tokens, expected.is_known) == (512, False)
    assert expected.reason == "31 of class chat have ended, 32 tell: the maximum"
    assert lengths.expect("batch", 0.9, 512).num_tokens == 512


def test_a_known_class_is_expected_to_generate_what_it_did_and_never_more_than_it_may() -> None:
    lengths = OutputLengths()
    for number in range(100):
        lengths.note("chat", number % 50)
    assert lengths.expect("chat", 0.9, 512).num_tokens == 44
    assert lengths.expect("chat", 0.9, 10).num_tokens == 10
    assert lengths.expect("chat", 0.9, 512).reason == "quantile 0.9 of class chat: 44 tokens"
