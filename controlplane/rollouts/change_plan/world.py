"""What a plan was made against, and what of that has moved since."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that decides what applying documents does."""

    latest: Mapping[str, str] = field(default_factory=dict)
    """Of each document, as `Kind/name`: number and digest of its latest revision."""
    generations: Mapping[str, int] = field(default_factory=dict)
    """By deployment."""
    rollouts: Mapping[str, str] = field(default_factory=dict)
    """Of each deployment that ever had one: number and state of the last."""


def moved_since(before: World, now: World) -> list[str]:
    """What differs, in words that name the place; nothing: the plan does now what it said."""
    return [
        *_differences(before.latest, now.latest, "", _short),
        *_differences(before.generations, now.generations, "the generation of Deployment/", str),
        *_differences(before.rollouts, now.rollouts, "the rollout of Deployment/", str),
    ]


def _differences(
    before: Mapping[str, object], now: Mapping[str, object], what: str, say: Callable[[object], str]
) -> Iterator[str]:
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if old is None:
            yield f"{what}{name} is new, at {say(new)}"
        elif new is None:
            yield f"{what}{name} is gone, and was at {say(old)}"
        else:
            yield f"{what}{name} is at {say(new)}, and was at {say(old)}"


def _short(value: object) -> str:
    """A number, and as much of a digest as tells two apart."""
    number, _, digest = str(value).partition(" ")
    return f"{number} ({digest[:12]})"
