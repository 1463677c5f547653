"""A number of a decision as text: with its unit, and a word where there is none."""


def amount(value: float | None, unit: str) -> str:
    """As `64 requests`, `1.2 s`, `340 ms`; unknown is written as such, never as 0."""
    if value is None:
        return "unknown"
    if unit == "s":
        return f"{value * 1000:.0f} ms" if abs(value) < 1 else f"{value:.1f} s"
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3g}"
    return f"{number} {unit}".strip()
