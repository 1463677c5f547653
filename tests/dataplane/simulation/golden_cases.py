"""The golden cases that the simulation is held to, as they are written."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

GOLDEN_DIR = Path(__file__).parents[2] / "golden"


def load_golden(name: str) -> dict[str, Any]:
    """A golden file, whole."""
    loaded: dict[str, Any] = YAML(typ="safe").load(GOLDEN_DIR / name)
    return loaded
