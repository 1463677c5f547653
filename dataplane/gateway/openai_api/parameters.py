"""Parameters that OpenAI defines and no engine of ours needs to know.

Each has values that change nothing; those are accepted and everything else is refused,
unless the deployment's engine declares the parameter, and then it is passed on to it.
"""

import difflib
from collections.abc import Iterable, Mapping, Set
from typing import Any

from dataplane.gateway.openai_api.errors import refuse

# Values that ask for nothing. None always asks for nothing.
_NEUTRAL_VALUES: Mapping[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "metadata": ({},),
    "modalities": (["text"],),
    "moderation": (),
    "parallel_tool_calls": (False, True),
    "prediction": (),
    "presence_penalty": (0,),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": (),
    "web_search_options": (),
}

# Names of the caller's own users and caches: any string, and no answer depends on it.
_LABELS = frozenset({"prompt_cache_key", "safety_identifier", "user"})


def check_foreign_parameters(
    body: Mapping[str, Any], known: Set[str], declared: Set[str] | None
) -> None:
    """Refuse every field of `body` that would otherwise be silently ignored.

    `known` are the fields that the request document reads; `declared` are the parameters
    that the engine takes beyond them, None while no replica has told. Raises ApiRefusalError.
    """
    for name, value in body.items():
        if name in known or (declared is not None and name in declared):
            continue
        if name in _LABELS:
            _check_label(name, value)
        elif name in _NEUTRAL_VALUES:
            _check_neutral(name, value)
        else:
            raise refuse(
                f"Unknown parameter: '{name}'.{_near(name, known | _LABELS)}",
                param=name,
                code="unknown_parameter",
            )


def _check_label(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise refuse(
            f"Invalid type for '{name}': expected a string.", param=name, code="invalid_type"
        )


def _check_neutral(name: str, value: object) -> None:
    if value is None or any(_same(value, neutral) for neutral in _NEUTRAL_VALUES[name]):
        return
    raise refuse(
        f"'{name}' is not supported by this deployment; leave it out.",
        param=name,
        code="unsupported_parameter",
    )


def _same(value: object, neutral: object) -> bool:
    # 0 == False in Python, and {"echo": 0} is no boolean.
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)


def _near(name: str, valid: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(valid), n=1)
    return f" Did you mean '{near[0]}'?" if near else ""
