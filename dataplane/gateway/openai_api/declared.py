"""Parameters that not every engine takes, and what is answered where one does not.

Each has values that ask for nothing; those are accepted anywhere. Any other value needs an
engine that declares the parameter, and is refused before it is submitted to one that does
not: nothing that a caller asked for is ever silently left out.
"""

import difflib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from dataplane.gateway.openai_api.errors import ApiRefusalError, refuse
from dataplane.gateway.openai_api.limits import MAX_CHARS

# Values that ask for nothing. None always asks for nothing.
_NEUTRAL_VALUES: Mapping[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": (),
    "ignore_eos": (False,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "metadata": ({},),
    "min_tokens": (0,),
    "modalities": (["text"],),
    "moderation": (),
    "n": (1,),
    "parallel_tool_calls": (False, True),
    "prediction": (),
    "presence_penalty": (0,),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "reasoning_effort": (),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": (),
    "top_k": (0, -1),
    "top_logprobs": (0,),
    "verbosity": (),
    "web_search_options": (),
}

# What says how tools are used means nothing without them, and whoever sent it forgot something.
_TOOLS_BY_WISH: Mapping[str, str] = {
    "function_call": "functions",
    "parallel_tool_calls": "tools",
    "tool_choice": "tools",
}
_NO_TOOLS = "none"
"""As a choice it asks for what happens anyway."""

# Names of the caller's own users and caches: any string, and no answer depends on it.
_LABELS = frozenset({"prompt_cache_key", "safety_identifier", "user"})

_REMEDIES = {
    "echo": "put the prompt before the answer yourself",
    "best_of": "ask for 'n' answers and choose",
    "suffix": "write what follows into the prompt",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTakes:
    """What a deployment's engine declares."""

    engine: str
    parameters: Set[str] | None
    """None while no replica has told: the engine is asked again before a submission."""

    def lacks(self, name: str) -> bool:
        """It is known not to take `name`."""
        return self.parameters is not None and name not in self.parameters


def read_needs(body: Mapping[str, Any], known: Set[str], takes: EngineTakes) -> frozenset[str]:
    """The parameters of `body` that its engine must take.

    `known` are the fields that the request document reads. Raises ApiRefusalError for one that
    the engine does not take, and for every field that would otherwise be silently ignored.
    """
    _check_tools(body, takes)
    needs = {name for name in body if _is_needed(name, body[name], known, takes)}
    for name in sorted(needs):
        if takes.lacks(name):
            raise refuse_lacking(name, takes.engine)
    return frozenset(needs)


def _check_tools(body: Mapping[str, Any], takes: EngineTakes) -> None:
    """As OpenAI does, refuse an empty list of tools, and a wish about tools that nobody gives."""
    for name in sorted(set(_TOOLS_BY_WISH.values())):
        if body.get(name) == []:
            raise refuse(
                f"'{name}' is empty: {_tools_remedy(name, takes)}.",
                param=name,
                code="invalid_value",
            )
    for wish, name in _TOOLS_BY_WISH.items():
        if body.get(wish) not in (None, _NO_TOOLS) and body.get(name) is None:
            raise refuse(
                f"'{wish}' is only allowed with '{name}': {_tools_remedy(name, takes)}.",
                param=wish,
                code="invalid_value",
            )


def _tools_remedy(name: str, takes: EngineTakes) -> str:
    if takes.lacks(name):
        return f"leave it out; this deployment's engine, '{takes.engine}', takes no {name}"
    return f"leave it out, or give at least one in '{name}'"


def refuse_lacking(name: str, engine: str) -> ApiRefusalError:
    """The refusal of a parameter that an engine does not take."""
    remedy = _REMEDIES.get(name, "leave it out")
    return refuse(
        f"'{name}' is not supported by this deployment's engine, '{engine}': {remedy}, or ask a "
        f"deployment whose engine takes it.",
        param=name,
        code="unsupported_parameter",
    )


def refuse_tool_turn(kind: str, engine: str, param: str) -> ApiRefusalError:
    """The refusal of a message of the conversation that an engine without tools cannot read;
    `kind` says which messages are meant."""
    return refuse(
        f"Messages {kind} need an engine that takes tools; this deployment's engine, '{engine}', "
        f"takes none. Leave those turns out, or ask a deployment whose engine takes 'tools'.",
        param=param,
        code="unsupported_parameter",
    )


def _is_needed(name: str, value: object, known: Set[str], takes: EngineTakes) -> bool:
    if name in _NEUTRAL_VALUES:
        return not _is_neutral(name, value)
    if name in known:
        return False
    if name in _LABELS:
        _check_label(name, value)
        return False
    if takes.parameters is not None and name in takes.parameters:
        return True
    shown = name if len(name) <= MAX_CHARS else name[:64] + "..."
    raise refuse(
        f"Unknown parameter: '{shown}'.{_near(name, known | _LABELS | _NEUTRAL_VALUES.keys())}",
        param=shown,
        code="unknown_parameter",
    )


def _check_label(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise refuse(
            f"Invalid type for '{name}': expected a string.", param=name, code="invalid_type"
        )
    if len(value) > MAX_CHARS:
        raise refuse(
            f"'{name}' is longer than {MAX_CHARS} characters.", param=name, code="invalid_value"
        )


def _is_neutral(name: str, value: object) -> bool:
    return value is None or any(_same(value, neutral) for neutral in _NEUTRAL_VALUES[name])


def _same(value: object, neutral: object) -> bool:
    # 0 == False in Python, and {"echo": 0} is no boolean.
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)


def _near(name: str, valid: Iterable[str]) -> str:
    near = difflib.get_close_matches(name[:64], sorted(valid), n=1)
    return f" Did you mean '{near[0]}'?" if near else ""
