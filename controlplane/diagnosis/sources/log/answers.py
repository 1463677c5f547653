"""How many requests were answered with which status, counted in access lines.

What probes and scrapers ask for is left out: it comes at an even pace whatever happens, and an
engine's `/health` answers 503 for other reasons than a caller's request.
"""

import re
from collections import Counter

from controlplane.diagnosis.sources.log.figure import Figure
from dataplane.engine_metrics.signal import Signal

_ANSWER = re.compile(r"\" ?(\d{3})\b")
_PROTOCOL = " HTTP/"
_OF_PROBES = re.compile(
    r"\"[A-Z]+ (?:/v1)?/(?:health\w*|ping|metrics|version|load|models|get_server_info|server_info|"
    r"model_info|get_model_info|v2/health/\w+|livez|readyz|favicon\.ico)/?(?:\?\S*)?$"
)


class Answers:
    """Counts, status by status."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def take(self, line: str) -> Figure | None:
        """The new count of the status that `line` tells; None where it is none of a caller's."""
        request, protocol, rest = line.partition(_PROTOCOL)
        found = _ANSWER.search(rest, 0, 12) if protocol else None
        if found is None or _OF_PROBES.search(request):
            return None
        code = found[1]
        self._counts[code] += 1
        count = self._counts[code]
        return Figure(Signal.HTTP_ANSWERED, f"answers {code}", count, str(count), {"code": code})
