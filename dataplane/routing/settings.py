"""Reading the settings of a routing policy: numbers by name, and an error for what is unknown."""

import difflib
from collections.abc import Mapping
from typing import Any


def read_numbers(
    where: str, settings: Mapping[str, Any], defaults: Mapping[str, float | None]
) -> dict[str, float | None]:
    """`settings` over `defaults`. Raises ValueError naming `where`, the setting and what is
    valid for one that is unknown, and for a value that is no number above 0."""
    for name, value in settings.items():
        if name not in defaults:
            near = difflib.get_close_matches(name, defaults, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            valid = ", ".join(sorted(defaults)) or "none"
            raise ValueError(f"{where} has no setting {name!r}{hint} Settings: {valid}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ValueError(f"{where}: {name} must be a number above 0, not {value!r}")
    return {**defaults, **settings}
