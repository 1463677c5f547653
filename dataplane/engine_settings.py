"""An EngineConfig's settings against the model of what its engine may be told."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from dataplane.invalid_input import say_invalid

SettingsT = TypeVar("SettingsT", bound=BaseModel)


def parse_settings(model: type[SettingsT], settings: Mapping[str, Any]) -> SettingsT:
    """Raises ValueError naming every key that is wrong."""
    problems = check_settings(model, settings)
    if problems:
        raise ValueError(
            "; ".join(
                f"{'.'.join(('settings', key)) if key else 'settings'}: {what}"
                for key, what in problems
            )
        )
    return model.model_validate(dict(settings))


def check_settings(model: type[BaseModel], settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Problems as (key, what is wrong and the remedy); the key is "" for several together."""
    try:
        model.model_validate(dict(settings))
    except ValidationError as error:
        return [_explain(model, item["loc"], item["type"], item["msg"]) for item in error.errors()]
    return []


def _explain(
    model: type[BaseModel], location: tuple[int | str, ...], kind: str, message: str
) -> tuple[str, str]:
    key = ".".join(str(part) for part in location)
    if kind != "extra_forbidden":
        return key, say_invalid(kind, message)
    valid = sorted(_model_at(model, location[:-1]).model_fields)
    near = difflib.get_close_matches(str(location[-1]), valid, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return key, f"unknown setting; {hint}Valid: {', '.join(valid)}"


def _model_at(model: type[BaseModel], location: Sequence[int | str]) -> type[BaseModel]:
    """The model of the settings under `location`: itself for ()."""
    for part in location:
        annotation = model.model_fields[str(part)].annotation
        model = next(
            each
            for each in (annotation, *get_args(annotation))
            if isinstance(each, type) and issubclass(each, BaseModel)
        )
    return model
