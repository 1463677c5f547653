"""Scrapes of vLLM's `/metrics`, and what its counters took in from one to the next.

vLLM counts as tokens of a step the prompt tokens that it finished with and the tokens that it
selected; the first token of an answer is both selected and the end of a prompt, so a prefill of
n tokens counts n + 1. A step that selects nothing is not counted at all.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dataplane.engine_metrics.exposition import ExpositionReader, Sample
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables.vllm import VLLM
from dataplane.simulation.fitting.fit import FitError

BETWEEN_TOKENS = VLLM.names_of(Signal.ITL)
_STEP_TOKENS = VLLM.names_of(Signal.STEP_TOKENS)
_GENERATED = VLLM.names_of(Signal.GENERATION_TOKENS)
_RUNNING = VLLM.names_of(Signal.RUNNING)


@dataclass(frozen=True, slots=True)
class Scrape:
    """Values by name of the sample, added up over the engines of one model."""

    place: str
    values: dict[str, float]
    most_tokens: int | None
    """The bound of the highest bucket of step tokens that holds anything."""
    models: frozenset[str]

    @property
    def num_running(self) -> float:
        """Requests in the engine at that moment; 0 where it does not say."""
        return max((self.values[name] for name in _RUNNING if name in self.values), default=0.0)


@dataclass(frozen=True, slots=True)
class Change:
    """What a histogram took in between two scrapes."""

    count: float
    total: float

    @property
    def mean(self) -> float:
        """Of what was taken in; there must be something."""
        return self.total / self.count


@dataclass(frozen=True, slots=True)
class Interval:
    """What the steps between two scrapes came to."""

    num_steps: float
    num_prompt_tokens: float
    """Computed, of prompts that ended in it."""
    between_tokens: Change
    """Of each token after the first of its answer: a row that decoded, and how long its step
    was."""

    @property
    def prompt_tokens(self) -> float:
        """Of its mean step."""
        return self.num_prompt_tokens / self.num_steps

    @property
    def decode_rows(self) -> float:
        """Of its mean step."""
        return self.between_tokens.count / self.num_steps


class RestartError(FitError):
    """A counter fell."""


def read_scrape(path: Path) -> Scrape:
    """Raises FitError for a file that is no scrape."""
    values: dict[str, float] = defaultdict(float)
    buckets: dict[float, float] = defaultdict(float)
    models = set()
    for sample in _samples(path):
        name, labels, value = sample.head.name, sample.head.labels, sample.value
        if "le" in labels:
            if name == f"{_STEP_TOKENS[0]}_bucket":
                buckets[float(labels["le"])] += value
            continue
        values[name] += value
        if name.startswith(VLLM.prefixes) and "model_name" in labels:
            models.add(labels["model_name"])
    return Scrape(str(path), dict(values), _highest(buckets), frozenset(models))


def _samples(path: Path) -> Sequence[Sample]:
    try:
        page = ExpositionReader().read(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _no_scrape(path, error.strerror if isinstance(error, OSError) else error) from error
    if page.bad_lines:
        bad = page.bad_lines[0]
        raise _no_scrape(path, f"line {bad.number}: {bad.why}")
    return page.samples


def _no_scrape(path: Path, why: object) -> FitError:
    return FitError(f"{path} is no scrape: {why}; save one with `curl http://<vllm>/metrics`")


def interval_between(first: Scrape, last: Scrape) -> Interval:
    """Raises RestartError, and FitError for a series that is not there."""
    steps = change_of(_STEP_TOKENS, first, last)
    generated = counted(_GENERATED, first, last)
    between = change_of(BETWEEN_TOKENS, first, last)
    return Interval(steps.count, max(0.0, steps.total - generated), between)


def split_at_restarts(scrapes: Sequence[Scrape]) -> list[list[Scrape]]:
    """Stretches of two or more in which no counter fell. Raises RestartError where there is
    none."""
    stretches = [[scrapes[0]]]
    fell: RestartError | None = None
    for first, last in pairwise(scrapes):
        try:
            interval_between(first, last)
        except RestartError as error:
            fell = error
            stretches.append([last])
        else:
            stretches[-1].append(last)
    found = [stretch for stretch in stretches if len(stretch) > 1]
    if not found and fell is not None:
        raise fell
    return found


def change_over(names: Sequence[str], stretches: Sequence[Sequence[Scrape]]) -> Change:
    """Over all of them. Raises FitError for a series that is not there."""
    changes = [change_of(names, stretch[0], stretch[-1]) for stretch in stretches]
    return Change(sum(each.count for each in changes), sum(each.total for each in changes))


def change_of(names: Sequence[str], first: Scrape, last: Scrape) -> Change:
    """Of the first histogram of `names` that the later scrape has. Raises as interval_between."""
    name = find_name(names, "_count", last)
    return Change(grown(f"{name}_count", first, last), grown(f"{name}_sum", first, last))


def counted(names: Sequence[str], first: Scrape, last: Scrape) -> float:
    """Of the first counter of `names` that the later scrape has. Raises as interval_between."""
    return grown(find_name(names, "", last), first, last)


def grown(name: str, first: Scrape, last: Scrape) -> float:
    """Raises RestartError for a counter that fell."""
    by = last.values.get(name, 0.0) - first.values.get(name, 0.0)
    if by < 0:
        raise RestartError(
            f"{name} fell from {first.values[name]:g} in {first.place} to {last.values[name]:g} "
            f"in {last.place}: the server restarted between them, or they are the wrong way round"
        )
    return by


def find_name(names: Sequence[str], suffix: str, scrape: Scrape) -> str:
    """The first that is there. Raises FitError where none is."""
    for name in names:
        if f"{name}{suffix}" in scrape.values:
            return name
    raise FitError(
        f"{scrape.place} lacks {' and '.join(names)}; scrape /metrics of a vLLM server itself, "
        f"not of something before it that drops series"
    )


def _highest(buckets: dict[float, float]) -> int | None:
    total = max(buckets.values(), default=0.0)
    reached = [bound for bound, count in buckets.items() if count >= total > 0]
    bound = min(reached, default=float("inf"))
    return None if bound == float("inf") else int(bound)
