"""Templates and static files. Everything that goes into a page is escaped by default."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from controlplane.access.current import current_principal
from controlplane.access.principal import LOCAL
from controlplane.api.quantities import age, amount
from controlplane.api.rollout_words import (
    burn_words,
    burning_words,
    estimate_words,
    gets_words,
    interval_words,
    kept_words,
    margin_words,
    promise_words,
    says_of,
    shadow_class_words,
    shadow_outcome_words,
    shadow_says,
    shadow_words,
    share_words,
    step_words,
)
from controlplane.console import formatting
from controlplane.console.banner import override_lines, silence_lines
from controlplane.console.menu import key_of, menu_of
from controlplane.slo.burn_rate import percent

_HERE = Path(__file__).parent
STATIC_DIRECTORY = _HERE / "static"
_TEMPLATES = _HERE / "templates"


@cache
def environment() -> Environment:
    """The console's templates. A name that a template misspells is an error, never a blank."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["static_url"] = static_url
    made.globals["principal"] = current_principal.get
    made.globals["menu"] = lambda: menu_of(current_principal.get())
    made.globals["menu_key"] = key_of
    made.globals["overrides_in_force"] = override_lines
    made.globals["silences_in_force"] = silence_lines
    made.globals["auth_is_off"] = lambda: current_principal.get() is LOCAL
    for name in (
        "amount_of", "budget_share", "burn", "clock_time", "count", "duration",
        "exact_time", "in_start_order", "money", "rate", "share", "short_id", "size", "tail",
    ):  # fmt: skip
        made.filters[name] = getattr(formatting, name)
    made.filters["codes"] = _codes
    made.filters["age"] = _age
    made.filters["amount"] = amount
    for words in (
        burn_words, burning_words, estimate_words, gets_words, interval_words, kept_words,
        margin_words,
        promise_words, says_of, shadow_class_words, shadow_outcome_words, shadow_says,
        shadow_words, share_words, step_words,
    ):  # fmt: skip
        made.filters[words.__name__] = words
    made.filters["target"] = percent
    return made


def render(template: str, **values: Any) -> str:
    """The page as HTML."""
    return environment().get_template(template).render(**values)


def _age(seconds: float | None) -> str | None:
    """A number stays on the line of its unit."""
    return None if seconds is None else age(seconds).replace(" ", "\u00a0")


def _codes(text: str) -> Markup:
    """What stands between backticks is code; all of it is escaped."""
    parts = [
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(text.split("`"))
    ]
    return Markup("").join(parts)


def static_url(path: str) -> str:
    """The URL of a static file. It changes with the content, so browsers may keep it."""
    return f"/static/{path}?v={_digest(path)}"


@cache
def _digest(path: str) -> str:
    return hashlib.sha256((STATIC_DIRECTORY / path).read_bytes()).hexdigest()[:12]
