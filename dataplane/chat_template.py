"""A model's own chat template: Jinja source from its file, rendered in a sandbox.

The template belongs to whoever made the model and is not trusted with this process; the
messages belong to clients and are not trusted with the template's control tokens (see
`dataplane.tokenizer` for how those are kept apart).
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from dataplane.clock import WallClock, wall_clock

Message = Mapping[str, Any]
"""One chat message as OpenAI spells it: `role`, `content`, and whatever else the template reads."""

# Templates may build control tokens out of the role ('<|' + role + '|>'), so it is never free text.
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})

# What a template can raise on messages that it was not made for.
_RENDER_ERRORS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
)


class TemplateError(ValueError):
    """These messages cannot be put into the model's template: the caller's mistake (a 400)."""


class ChatTemplate:
    """One compiled template. Safe to use from several threads.

    `bos_token` and `eos_token` are what the template sees under these names.
    """

    def __init__(
        self, source: str, *, bos_token: str, eos_token: str, clock: WallClock = wall_clock
    ) -> None:
        """Raises ValueError when `source` is no valid Jinja."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": lambda layout: _now(clock).strftime(layout),
            "bos_token": bos_token,
            "eos_token": eos_token,
        }
        self.source = source
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise ValueError(
                f"the chat template is broken at line {error.lineno}: {error.message}"
            ) from error

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt text, ending where the assistant is to go on.

        Raises TemplateError when there is no message, a role is unknown, or the template
        refuses what it is given.
        """
        if not messages:
            raise TemplateError("messages is empty; send at least one")
        for index, message in enumerate(messages):
            if message.get("role") not in ROLES:
                raise TemplateError(
                    f"messages[{index}].role is {message.get('role')!r}; "
                    f"use one of {', '.join(sorted(ROLES))}"
                )
        try:
            return self._template.render(messages=messages, add_generation_prompt=True)
        except TemplateError:
            raise
        except _RENDER_ERRORS as error:
            raise TemplateError(
                f"the model's chat template does not take these messages: {error}"
            ) from error


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(f"the model's chat template refused the messages: {message}")


def _now(clock: WallClock) -> datetime:
    return datetime.fromtimestamp(clock() / 1e9, tz=UTC)


def _to_json(value: Any, indent: int | None = None) -> str:
    """JSON as models were trained on it; Jinja's own filter escapes it for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)
