"""One document against its kind: every problem at once, each with its place and what to write.

Pydantic finds the problems; here they get words that name the valid alternatives.
"""

import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from controlplane.specs.document import SPECS, Document
from controlplane.specs.kind import (
    API_VERSION,
    Kind,
    SpecModel,
    UnknownKindError,
    canonical_json,
    nearest,
)
from controlplane.specs.match_expression import MatchError
from controlplane.specs.names import check_name
from controlplane.specs.problem import Path, Problem
from controlplane.specs.source import Source

AnyModel = TypeVar("AnyModel", bound=SpecModel)

_TOP_KEYS = ("apiVersion", "kind", "metadata", "spec")
_SCENARIO = "Scenario"
_WORDS_BY_TYPE = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}


def validate(source: Source) -> tuple[Document | None, list[Problem]]:
    """The checked document, or every reason why there is none."""
    if not isinstance(source.data, dict):
        what = f"a document is a mapping with {', '.join(_TOP_KEYS)}; this is {_said(source.data)}"
        return None, [source.problem((), what)]
    problems = [*_check_top_keys(source), *_check_version(source)]
    name = _read_name(source, problems)
    kind = _read_kind(source, problems)
    spec = None if kind is None else _read_spec(source, SPECS[kind], problems)
    if problems or kind is None or name is None or spec is None:
        return None, problems
    return Document(kind=kind, name=name, spec=spec), []


def read_unstored(
    source: Source, model: type[AnyModel]
) -> tuple[str | None, AnyModel | None, list[Problem]]:
    """Name and spec of a document of a kind that is never applied, whose spec is a `model`; its
    kind is looked at already. None, and every reason why, for what cannot be read."""
    problems = [*_check_top_keys(source), *_check_version(source)]
    name = _read_name(source, problems)
    spec = _read_spec(source, model, problems)
    return name, spec, problems


def _check_top_keys(source: Source) -> list[Problem]:
    return [_unknown_key(source, (key,), _TOP_KEYS) for key in source.data if key not in _TOP_KEYS]


def _check_version(source: Source) -> list[Problem]:
    version = source.data.get("apiVersion", API_VERSION)
    if version == API_VERSION:
        return []
    what = f"must be {API_VERSION}, the only version there is, not {_said(version)}"
    return [source.problem(("apiVersion",), what)]


def _read_name(source: Source, problems: list[Problem]) -> str | None:
    metadata = source.data.get("metadata")
    if not isinstance(metadata, dict):
        problems.append(source.problem(("metadata",), "is required: write metadata: {name: ...}"))
        return None
    problems += [
        _unknown_key(source, ("metadata", key), ("name",)) for key in metadata if key != "name"
    ]
    name = metadata.get("name")
    if not isinstance(name, str):
        what = "is required" if name is None else f"must be text, not {_said(name)}"
        problems.append(source.problem(("metadata", "name"), what))
        return None
    try:
        return check_name(name)
    except ValueError as error:
        problems.append(source.problem(("metadata", "name"), str(error)))
        return None


def _read_kind(source: Source, problems: list[Problem]) -> Kind | None:
    word = source.data.get("kind")
    if isinstance(word, str) and word in list(Kind):
        return Kind(word)
    if word == _SCENARIO:
        what = "a Scenario is not applied: nothing comes of it but `pilothouse simulate FILE`"
    elif isinstance(word, str):
        what = str(UnknownKindError(word[:80]))
    else:
        need = "is required" if word is None else f"must be text, not {_said(word)}"
        what = f"{need}; kinds: {', '.join(Kind)}"
    problems.append(source.problem(("kind",), what))
    return None


def _read_spec(source: Source, model: type[AnyModel], problems: list[Problem]) -> AnyModel | None:
    data = source.data.get("spec")
    if not isinstance(data, dict):
        fields = ", ".join(_fields_of(model))
        what = "is required" if data is None else f"must be a mapping, not {_said(data)}"
        problems.append(source.problem(("spec",), f"{what}; it takes {fields}"))
        return None
    return read_model(source, ("spec",), model, problems)


def read_model(
    source: Source, path: Path, model: type[AnyModel], problems: list[Problem]
) -> AnyModel | None:
    """The mapping at `path` of a document as `model`, or None, and every problem told in words."""
    data = source.data
    for part in path:
        data = data[part]
    try:
        return model.model_validate_json(canonical_json(data))
    except ValidationError as error:
        problems += [
            _explain(source, path, model, detail)
            for detail in error.errors()
            if not _is_echo(detail)
        ]
        return None


def _explain(source: Source, at: Path, model: type[SpecModel], detail: ErrorDetails) -> Problem:
    # A key that is wrong itself is located by pydantic as (..., key, "[key]").
    location = tuple(part for part in detail["loc"] if part != "[key]")
    path: Path = (*at, *_without_tags(model, location))
    if detail["type"] == "extra_forbidden":
        valid = _fields_of(_annotation_at(model, location[:-1]))
        return _unknown_key(source, path, valid)
    if detail["type"] == "union_tag_invalid":
        path = (*path, detail["ctx"]["discriminator"].strip("'"))
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, MatchError):
        return source.problem_in_text(path, cause.what, cause.line, cause.column)
    position = source.key_position(path) if "[key]" in detail["loc"] else None
    return source.problem(path, _message(detail), position)


def _is_echo(detail: ErrorDetails) -> bool:
    """A list that is only too short because its items have problems of their own."""
    if detail["type"] != "too_short":
        return False
    return len(detail["input"]) >= int(detail["ctx"]["min_length"])


def _message(detail: ErrorDetails) -> str:
    context: Mapping[str, Any] = detail.get("ctx", {})
    kind = detail["type"]
    if kind == "missing":
        return "is required"
    if kind == "value_error":
        return str(context["error"])
    if kind in _WORDS_BY_TYPE:
        return f"must be {_WORDS_BY_TYPE[kind]}, not {_said(detail['input'])}"
    if kind == "enum":
        return _none_of(detail["input"], str(context["expected"]))
    if kind == "union_tag_invalid":
        return _none_of(context["tag"], str(context["expected_tags"]))
    if kind == "union_tag_not_found":
        key = str(context["discriminator"]).strip("'")
        return f"needs {key}, which says what it is"
    if kind == "too_short":
        return f"needs at least {context['min_length']} of them, has {context['actual_length']}"
    return f"{detail['msg'].replace('Input should', 'should')}; it is {_said(detail['input'])}"


def _none_of(word: Any, expected: str) -> str:
    words = expected.replace("'", "").replace(" or ", ", ").split(", ")
    near = nearest(str(word), words)
    hint = f"; did you mean {near}?" if near else "."
    return f"{_said(word)} is none of the valid ones{hint} Valid: {', '.join(words)}"


def _unknown_key(source: Source, path: Path, valid: typing.Iterable[str]) -> Problem:
    words = list(valid)
    near = nearest(str(path[-1]), words)
    hint = f"; did you mean {near}?" if near else "."
    what = f"there is no such key here{hint} Valid: {', '.join(words)}"
    return source.problem(path, what, source.key_position(path))


def _fields_of(annotation: Any) -> list[str]:
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return [field.alias or name for name, field in annotation.model_fields.items()]
    return []


def _annotation_at(model: Any, location: tuple[int | str, ...]) -> Any:
    """The type that a location in a spec has."""
    return _without_wrappers(_wrapped_at(model, location))


def _without_tags(model: Any, location: tuple[int | str, ...]) -> Path:
    """Where a location is in the document: pydantic puts the member of a union into it."""
    return tuple(
        part
        for position, part in enumerate(location)
        if part not in members_by_tag(_wrapped_at(model, location[:position]))
    )


def _wrapped_at(model: Any, location: tuple[int | str, ...]) -> Any:
    annotation = model
    for part in location:
        members = members_by_tag(annotation)
        annotation = members.get(part) or _step(_without_wrappers(annotation), part)
    return annotation


def members_by_tag(annotation: Any) -> dict[int | str, Any]:
    """The models of a union by what tells them apart: a field that takes one word alone."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) not in (types.UnionType, typing.Union):
        return {}
    return {
        word: member
        for member in typing.get_args(annotation)
        if isinstance(member, type) and issubclass(member, SpecModel)
        for field in member.model_fields.values()
        if is_tag(field.annotation)
        for word in typing.get_args(field.annotation)[:1]
    }


def is_tag(annotation: Any) -> bool:
    """Of a field that takes one word alone, and so tells which model it is in."""
    return typing.get_origin(annotation) is typing.Literal


def _step(annotation: Any, part: int | str) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        fields = annotation.model_fields.items()
        return next((f.annotation for name, f in fields if part in (name, f.alias)), None)
    arguments = typing.get_args(annotation)
    return arguments[1 if typing.get_origin(annotation) is dict else 0] if arguments else None


def _without_wrappers(annotation: Any) -> Any:
    """The type inside Annotated[...] and `| None`."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif origin in (types.UnionType, typing.Union):
            inner = [a for a in typing.get_args(annotation) if a is not types.NoneType]
            annotation = inner[0]
        else:
            return annotation


def _said(value: Any) -> str:
    """A value as a message shows it: never long, containers by what they are."""
    describe: Callable[[Any], str] = {
        dict: lambda _: "a mapping",
        list: lambda _: "a list",
        type(None): lambda _: "empty",
        bool: lambda v: str(v).lower(),
        str: lambda v: repr(v if len(v) <= 60 else f"{v[:60]}..."),
    }.get(type(value), str)
    return describe(value)
