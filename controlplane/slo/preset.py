"""Contracts to begin with, one for each kind of traffic: complete, with a reason for each value."""

from dataclasses import dataclass
from importlib.resources import files

_ORDER = (
    "interactive-chat",
    "long-generation",
    "prompt-heavy",
    "offline-batch",
    "streaming-voice",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One of them."""

    name: str
    """As the document in it is called."""
    purpose: str
    """In a sentence."""
    text: str
    """A document of kind SLOContract, with comments; `apply` takes it as it is."""


def presets() -> tuple[Preset, ...]:
    """All of them."""
    return tuple(_read(name) for name in _ORDER)


def find_preset(name: str) -> Preset | None:
    """None where none is called so."""
    return _read(name) if name in _ORDER else None


def _read(name: str) -> Preset:
    text = (files("controlplane.slo") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")
    first, _, _ = text.partition("\n")
    return Preset(name=name, purpose=first.removeprefix("# "), text=text)
