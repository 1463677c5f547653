"""When something that is planned shall begin, as people write it."""

from datetime import UTC, datetime

from controlplane.specs.quantity import parse_duration

_NS = 10**9


def parse_begin(text: str, now_unix_ns: int) -> int | None:
    """`+2h` from now, or an ISO 8601 time (UTC unless it says otherwise); None: nothing is given,
    which means at once. Nanoseconds since the epoch. Raises ValueError."""
    given = text.strip()
    if not given:
        return None
    if given.startswith("+"):
        return now_unix_ns + int(parse_duration(given[1:]) * _NS)
    try:
        instant = datetime.fromisoformat(given)
    except ValueError as error:
        raise ValueError(_why(given)) from error
    if not 1970 <= instant.year <= 2200:
        raise ValueError(_why(given))
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return int(instant.timestamp()) * _NS


def _why(text: str) -> str:
    return (
        f"from: {text[:64]!r} is neither a time ahead such as +2h, nor one such as "
        "2026-12-01T02:00 (UTC)"
    )
