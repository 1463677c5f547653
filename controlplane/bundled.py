"""Files that ship beside the code: migrations, the demos' documents and the runbooks.

In a source tree they lie at the root, in a wheel inside this package (see pyproject,
`force-include`), and nothing else may care which.
"""

from enum import Enum
from pathlib import Path

_PACKAGE = Path(__file__).parent


class Bundled(Enum):
    """What ships beside the code: its folder in a wheel, and in the source tree."""

    CONFIG_MIGRATIONS = ("migrations/config", "migrations/config")
    REQUEST_MIGRATIONS = ("migrations/requests", "migrations/requests")
    DEMO = ("demo", "ops/demo")
    SIMULATOR_DEMO = ("simulator_demo", "ops/examples/simulator")
    RUNBOOKS = ("runbooks", "ops/runbooks")


def locate(bundled: Bundled) -> Path:
    """The folder of `bundled`.

    Raises FileNotFoundError when the installation lacks it.
    """
    in_wheel, in_source = bundled.value
    candidates = (_PACKAGE / in_wheel, _PACKAGE.parent / in_source)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(
        f"this installation of Pilothouse is incomplete: neither {candidates[0]} nor "
        f"{candidates[1]} exists; install it again"
    )
