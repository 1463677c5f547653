"""Sizes are written with their unit."""

import re

import pytest

from dataplane.byte_size import parse_size


@pytest.mark.parametrize(
    ("text", "size"), [("512MiB", 2**29), ("1.5 GiB", 3 * 2**29), ("7B", 7), ("2KiB", 2048)]
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["512", "1GB", "-1MiB", "MiB", "0B", 512, None])
def test_a_size_without_a_sensible_unit_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_size(text)
