"""Numbers as text, for answers, pages and the terminal: with a unit, and a word for unknown."""


def amount(value: float | None, unit: str) -> str:
    """As `64 requests`, `1.2 s`, `340 ms`; unknown is written as such, never as 0."""
    if value is None:
        return "unknown"
    if unit == "s":
        return f"{value * 1000:.0f} ms" if abs(value) < 1 else f"{value:.1f} s"
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3g}"
    return f"{number} {unit}".strip()


def age(seconds: float) -> str:
    """How long ago, or for how long, roughly: `4 s`, `12 min`, `3 h`, `2 d`; never below 0."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if whole >= 2 * size or (unit == "h" and whole >= size):
            return f"{whole // size} {unit}"
    return f"{whole} s"
