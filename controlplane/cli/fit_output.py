"""A fit on a terminal."""

from collections.abc import Iterator

from controlplane.cli.terminal import indented, instant, table
from dataplane.simulation.fitting.document import Fit, Noise, Overheads, Spread, StepForm

_SHARES = {
    "per_prompt_token": "per prompt token",
    "per_decode_step": "per decode step",
    "per_context_token": "per context token of a decode step",
    "per_reread_token": "per token before a prefill chunk",
    "per_attended_token": "per pair of tokens in a prefill chunk",
}
_OVERHEADS = {
    "arrival_to_admission": "arrival to admission",
    "admission_to_idle_engine": "admission to the first step of an idle engine",
    "between_steps": "between two steps (part of the steps' times)",
    "selection_to_first_write": "first token selected to first write",
    "finish_to_last_write": "finish to last write",
}


def fit_text(fit: Fit) -> str:
    """All of it, as lines."""
    return "\n".join(_lines(fit)).rstrip("\n")


def _lines(fit: Fit) -> Iterator[str]:
    yield table(_identity(fit))
    yield "\na step takes"
    yield indented(table(_form(fit.form)))
    yield "how far off that is, on steps that it was not fitted to"
    yield indented(_residuals(fit))
    yield "what steps of the same work differ by"
    yield indented(_noise(fit.noise))
    yield "time outside of steps"
    yield indented(_spreads(_named_overheads(fit.overheads)))
    yield "cold start"
    yield indented(_spreads(list(fit.cold_start.items())))
    if fit.cannot_tell:
        yield "what cannot be told"
        yield indented("\n".join(fit.cannot_tell))


def _identity(fit: Fit) -> list[tuple[str, str]]:
    machine = fit.machine
    cores = "" if machine.num_processors is None else f", {machine.num_processors} processors"
    when = (
        "unknown"
        if fit.first_at_unix_ns is None or fit.last_at_unix_ns is None
        else f"{instant(fit.first_at_unix_ns)} to {instant(fit.last_at_unix_ns)}"
    )
    return [
        ("source", fit.source),
        ("engine", fit.engine or "unknown"),
        ("model", f"{fit.model or 'unknown'} ({fit.model_revision or 'revision unknown'})"),
        ("config", fit.engine_config_revision or "unknown"),
        ("machine", f"{machine.name} ({machine.processor}{cores})"),
        ("traffic", when),
        ("learned from", f"{_seen(fit)} {fit.num_requests} requests"),
    ]


def _seen(fit: Fit) -> str:
    if fit.num_steps_used:
        return f"{fit.num_steps_used} of {fit.num_steps} steps,"
    return f"sums of {fit.num_steps} steps," if fit.num_steps else "prefills and decodes of"


def _form(form: StepForm) -> list[tuple[str, str]]:
    if len(form.knots) == 1:
        rows = [("in any case", _ms(form.knots[0].seconds))]
    else:
        rows = [(f"with {k.num_tokens} tokens in all", _ms(k.seconds)) for k in form.knots]
    return rows + [(name, f"+{_ms(getattr(form, key))}") for key, name in _SHARES.items()]


def _residuals(fit: Fit) -> str:
    if not fit.residuals:
        return "unknown"
    head = [("steps", "number", "median", "p90", "of the sum")]
    return table(
        head
        + [
            (r.steps, str(r.num_steps), f"{r.median:.1%}", f"{r.p90:.1%}", f"{r.bias:+.1%}")
            for r in fit.residuals
        ]
    )


def _noise(noise: Noise | None) -> str:
    if noise is None:
        return "unknown"
    wanted = (0.05, 0.5, 0.95)
    rows = [("", *(f"{share:.0%} at most" for share in wanted))]
    for name, factors in (
        ("steps without prompt tokens", noise.decode_factors),
        ("steps with prompt tokens", noise.prompt_factors),
    ):
        by_share = dict(zip(noise.shares, factors, strict=True))
        told = (by_share.get(share) for share in wanted)
        rows.append((name, *("unknown" if each is None else f"x {each:.2f}" for each in told)))
    return f"{table(rows)}\neach is like the one before it by {noise.correlation:.2f}"


def _named_overheads(overheads: Overheads) -> list[tuple[str, Spread | None]]:
    return [(name, getattr(overheads, key)) for key, name in _OVERHEADS.items()]


def _spreads(spreads: list[tuple[str, Spread]] | list[tuple[str, Spread | None]]) -> str:
    known = [(name, spread) for name, spread in spreads if spread is not None]
    if not known:
        return "unknown"
    head = [("", "median", "p95", "seen")]
    return table(
        head + [(name, _ms(s.median), _ms(s.p95), str(s.num_samples)) for name, s in known]
    )


def _ms(seconds: float) -> str:
    """Three digits that count."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
