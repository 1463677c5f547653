"""Counts of requests by those who sent some of them: who else calls an engine is not in them.

Such a count says that somebody waits. It does not say that nobody does, nor that an engine which
has more holds what nobody waits for.
"""

from controlplane.diagnosis.reading import Series

SOME_CALLERS = {"callers": "some"}
"""Labels of such a series."""


def is_of_some(series: Series) -> bool:
    """Whether others may have sent what it does not count."""
    return SOME_CALLERS.items() <= series.labels.items()
