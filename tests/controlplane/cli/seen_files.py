"""What `pilothouse simulate --metrics DIR` wrote, read as somebody outside would."""

import json
import math
from pathlib import Path
from typing import Any

Part = dict[str, Any]


class SeenFiles:
    """The parts of one folder, in their order."""

    def __init__(self, folder: Path) -> None:
        self.scrapes = _read(folder / "metrics.jsonl")
        self.events = _read(folder / "events.jsonl")
        self.gateways = _read(folder / "gateways.jsonl")

    def text(self, target: str, at: float) -> str:
        [found] = [p["text"] for p in self.scrapes if (p["target"], p["at_s"]) == (target, at)]
        assert isinstance(found, str)
        return found

    def value(self, target: str, at: float, name: str) -> float:
        """The sum over labels; not a number where the name is not exported."""
        lines = [
            line
            for line in self.text(target, at).split("\n")
            if line.startswith((f"{name}{{", f"{name} "))
        ]
        return sum(float(line.rpartition(" ")[2]) for line in lines) if lines else math.nan

    def growth(self, target: str, start: float, end: float, name: str) -> float:
        return self.value(target, end, name) - self.value(target, start, name)

    def total(self, start: float, end: float, name: str) -> float:
        return sum(self.growth(target, start, end, name) for target in self.targets)

    @property
    def targets(self) -> list[str]:
        return sorted({part["target"] for part in self.scrapes})

    def log(self, target: str) -> str:
        return "\n".join(p["text"] for p in self.events if p["target"] == target)

    def counts(self, at: float) -> dict[str, int]:
        [found] = [p["values"] for p in self.gateways if p["at_s"] == at]
        assert isinstance(found, dict)
        return found


def _read(path: Path) -> list[Part]:
    return [json.loads(line) for line in path.read_text().splitlines()]
