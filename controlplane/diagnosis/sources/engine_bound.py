"""How many engines one page may tell of: each is judged by itself, and a page of tens of thousands
would take minutes."""

from collections.abc import Iterable

from controlplane.diagnosis.sources import bounds
from dataplane.engine_metrics.exposition import NotMetricsError

_RANK = "engine"


class TooManyEnginesError(NotMetricsError):
    """It is a page, and more than is judged at once."""

    def __init__(self, place: str, num_engines: int) -> None:
        super().__init__(
            place,
            f"a page of {num_engines} engines, and {bounds.MOST_ENGINES} are judged at once",
            "give the pages of the engines that are meant, or their own addresses",
        )

    def __str__(self) -> str:
        return f"{self.place or 'the text'} is {self.what}: {self.remedy}"


def refuse_many_engines(labels: Iterable[Iterable[tuple[str, str]]], place: str) -> None:
    """`labels` of the series of one page. Raises TooManyEnginesError."""
    ranks = {value for each in labels for key, value in each if key == _RANK}
    if len(ranks) > bounds.MOST_ENGINES:
        raise TooManyEnginesError(place, len(ranks))
