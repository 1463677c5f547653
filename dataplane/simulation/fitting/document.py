"""A fit: what was learned of a replica's time, how well it explains what was seen, and from what.

One JSON document, which says of itself what it cannot tell. Times are in seconds.
"""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from dataplane.atomic_file import replace_file

SCHEMA_VERSION = 1
MAX_STEP_TOKENS = 1_000_000
"""More than any engine computes at once. Whoever computes with a form looks numbers of tokens up
in a table up to its last knot."""


class FitFileError(ValueError):
    """A file that is no fit, or one of another release; names the file, the place, the remedy."""


class Spread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of something that was seen several times, in seconds."""

    median: float
    p95: float
    num_samples: int


class TokensKnot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a step takes for its number of tokens alone, prompt and decode together."""

    num_tokens: int
    seconds: float


class StepForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step's time: the line through the knots at its number of tokens, and a share for each
    part of its work. Before the first knot it is flat, past the last it goes on as before it."""

    knots: tuple[TokensKnot, ...]
    """Ascending in tokens, and the last at least as high as the one before it. One alone: the
    same for every step."""
    per_prompt_token: float = 0.0
    per_decode_step: float = 0.0
    per_context_token: float = 0.0
    """Of each token that a decode step attends to."""
    per_reread_token: float = 0.0
    """Of each token before the start of a prefill chunk: its KV is read again."""
    per_attended_token: float = 0.0
    """Of each pair of a prompt token and a token at or before it, in a prefill chunk."""


class Residuals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far off the form is, as shares of the measured time. Each step is judged by a fit
    that did not see it. Where only requests were seen, in place of a step stands what one of them
    saw: its prefill, or the mean step of its decode. Where only sums were, the mean step between
    two scrapes."""

    steps: str
    """Which: all, decode, prefill, mixed, means, or a range of rows."""
    num_steps: int
    median: float
    p90: float
    bias: float
    """Of the sum of the times: above 0 the form predicts too much."""


class Noise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What steps of the same work differ by: factors on the form's time, as they occurred.

    Apart for steps with prompt tokens and without: who shares a machine's memory slows down
    decodes, which read all weights for few tokens, more than prefills, which compute.
    """

    shares: tuple[float, ...]
    """Ascending, from 0 to 1."""
    decode_factors: tuple[float, ...]
    """A share of the steps without prompt tokens took at most this many times what the form
    says."""
    prompt_factors: tuple[float, ...]
    """Of the steps with prompt tokens."""
    correlation: float = 0.0
    """Of a step with the next: a disturbance lasts."""


class Overheads(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time outside of steps."""

    arrival_to_admission: Spread | None = None
    """First byte at the gateway until the request was read, counted and admitted; of requests
    that did not come in a crowd."""
    admission_to_idle_engine: Spread | None = None
    """Until an engine that had nothing to do began its first step."""
    between_steps: Spread | None = None
    """End of one step until the next is scheduled. It is part of the steps' times."""
    selection_to_first_write: Spread | None = None
    """First token selected until its text left the gateway."""
    finish_to_last_write: Spread | None = None
    """Without what the client made the gateway wait."""


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where it was measured."""

    name: str
    processor: str
    num_processors: int | None


class Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most of each that any step had: beyond it the fit is a guess. None: nobody saw it."""

    num_tokens: int | None
    num_decode_steps: int | None
    num_context_tokens: int | None


class Fit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that was learned."""

    schema_version: int
    source: Literal["records", "vllm_metrics", "vllm_spans"]
    engine: str | None
    model: str | None
    model_revision: str | None
    engine_config_revision: str | None
    machine: Machine
    first_at_unix_ns: int | None
    """When the traffic was that it was learned from."""
    last_at_unix_ns: int | None
    num_requests: int
    num_steps: int
    """0: nobody counted them."""
    num_steps_used: int
    """Seen one by one, and fitted. 0: only sums were seen."""
    form: StepForm
    residuals: tuple[Residuals, ...]
    """Empty: unknown."""
    noise: Noise | None
    seen: Range | None
    overheads: Overheads
    cold_start: Mapping[str, Spread]
    """By stage: acquire, load, compile, warm_up."""
    cannot_tell: tuple[str, ...]


def encode_fit(fit: Fit) -> bytes:
    """JSON for people to read, too."""
    return msgspec.json.format(msgspec.json.encode(fit), indent=2) + b"\n"


def save_fit(fit: Fit, path: Path) -> None:
    """Write it whole or not at all. Raises OSError."""
    replace_file(path, encode_fit(fit))


def load_fit(path: Path) -> Fit:
    """Raises FitFileError for a file that cannot be read or is no fit."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FitFileError(f"{path} cannot be read ({error.strerror}); name a fit") from error
    return decode_fit(data, str(path))


def decode_fit(data: bytes, place: str) -> Fit:
    """Raises FitFileError, which calls the document `place`."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).schema_version
        if version != SCHEMA_VERSION:
            raise FitFileError(
                f"{place}: schema_version is {version}, and this release reads {SCHEMA_VERSION}; "
                f"fit it again with `pilothouse fit`"
            )
        fit = msgspec.json.decode(data, type=Fit)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FitFileError(f"{place} is no fit: {error}; make one with `pilothouse fit`") from error
    _check(fit, place)
    return fit


class _Versioned(msgspec.Struct):
    schema_version: int


def _check(fit: Fit, place: str) -> None:
    form = fit.form
    if not form.knots:
        raise FitFileError(f"{place}: form.knots is empty; a step needs at least one")
    for number, knot in enumerate(form.knots):
        if not 0 <= knot.num_tokens <= MAX_STEP_TOKENS:
            raise FitFileError(
                f"{place}: form.knots[{number}].num_tokens is {knot.num_tokens}, not in 0 to "
                f"{MAX_STEP_TOKENS}; no step holds so many"
            )
    for before, after in itertools.pairwise(form.knots):
        if after.num_tokens <= before.num_tokens:
            raise FitFileError(
                f"{place}: form.knots must ascend, and {after.num_tokens} tokens follow "
                f"{before.num_tokens}"
            )
    if len(form.knots) > 1 and form.knots[-1].seconds < form.knots[-2].seconds:
        raise FitFileError(
            f"{place}: form.knots ends with less time for more tokens, and would go on so below "
            f"0; raise its last seconds"
        )
    numbers = {name: getattr(form, name) for name in form.__struct_fields__ if name != "knots"}
    numbers |= {f"knots[{n}].seconds": knot.seconds for n, knot in enumerate(form.knots)}
    for name, number in numbers.items():
        if not number >= 0:
            raise FitFileError(f"{place}: form.{name} is {number:g}; no work takes less than 0 s")
    _check_noise(fit.noise, place)
    _check_measured(fit, place)


def _check_measured(fit: Fit, place: str) -> None:
    """Nothing is counted below 0, and nothing takes less than no time."""
    numbers: dict[str, float | None] = {
        name: getattr(fit, name) for name in ("num_requests", "num_steps", "num_steps_used")
    }
    seen, overheads = fit.seen, fit.overheads
    if seen is not None:
        numbers |= {f"seen.{name}": getattr(seen, name) for name in seen.__struct_fields__}
    spreads: dict[str, Spread | None] = {
        f"overheads.{name}": getattr(overheads, name) for name in overheads.__struct_fields__
    }
    spreads |= {f"cold_start.{stage}": spread for stage, spread in fit.cold_start.items()}
    for name, spread in spreads.items():
        if spread is not None:
            numbers |= {
                f"{name}.{part}": getattr(spread, part) for part in Spread.__struct_fields__
            }
    for name, number in numbers.items():
        if number is not None and number < 0:
            raise FitFileError(
                f"{place}: {name} is {number:g}, less than 0; correct it, or fit again with "
                f"`pilothouse fit`"
            )


def _check_noise(noise: Noise | None, place: str) -> None:
    if noise is None:
        return
    shares = noise.shares
    if list(shares) != sorted(shares) or (shares[:1], shares[-1:]) != ((0.0,), (1.0,)):
        raise FitFileError(f"{place}: noise.shares must ascend from 0 to 1")
    for name in ("decode_factors", "prompt_factors"):
        factors = getattr(noise, name)
        if len(shares) != len(factors):
            raise FitFileError(
                f"{place}: noise has {len(shares)} shares and {len(factors)} {name}; it needs "
                f"as many of both"
            )
        if list(factors) != sorted(factors) or factors[0] <= 0:
            raise FitFileError(f"{place}: noise.{name} must ascend, and all be above 0")
    if not 0 <= noise.correlation < 1:
        raise FitFileError(f"{place}: noise.correlation is {noise.correlation:g}, not in [0, 1)")
