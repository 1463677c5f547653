"""How far a walk through the pages of the request list has come. Pure."""

import time

from controlplane.api.request_query import QueryError, parse_instant


def share_done(since: str | None, newest_unix_ns: int, reached_unix_ns: int) -> float | None:
    """The share of the time asked for that the walk, newest first, has behind it.

    None when nobody can say: the list goes back to the beginning, or is about one instant.
    """
    if since is None:
        return None
    try:
        oldest = parse_instant("since", since, time.time_ns())
    except QueryError:
        return None
    span = newest_unix_ns - oldest
    return min(1.0, max(0.0, (newest_unix_ns - reached_unix_ns) / span)) if span > 0 else None
