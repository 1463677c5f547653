import pytest

from controlplane.diagnosis.views.durations import durations_in


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("22 min ago", (("", 1320.0),)),
        ("image 30 s, torch.compile: 2m", (("image", 30.0), ("torch.compile", 120.0))),
        ("1h 5 min", (("", 3600.0), ("", 300.0))),
        ("250ms", (("", 0.25),)),
        ("8 shards of 70b, v0.7.3", ()),
    ],
)
def test_times_are_found_with_the_words_before_them(
    text: str, found: tuple[tuple[str, float], ...]
) -> None:
    assert durations_in(text) == found
