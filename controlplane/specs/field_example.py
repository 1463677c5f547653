"""A value that can be written in a field."""

from typing import Annotated, Any

import annotated_types
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from controlplane.specs.kind import SpecModel
from controlplane.specs.plain_type import PlainType


def default_of(info: FieldInfo) -> Any:
    """As it would be written; None where leaving the field out says that, or is not allowed."""
    if info.is_required():
        return None
    value = info.get_default(call_default_factory=True)
    whole: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    return TypeAdapter[Any](whole).dump_python(
        value, mode="json", by_alias=True, exclude_unset=True
    )


def example_of_field(info: FieldInfo, kind_of: PlainType) -> Any:
    """The one that stands beside the field, its default, or one that its type allows."""
    if info.examples:
        return info.examples[0]
    default = default_of(info)
    return _example(kind_of) if default in (None, False, {}, []) else default


def _example(kind_of: PlainType) -> Any:
    if kind_of.written is not None:
        return kind_of.written.example
    if kind_of.is_list:
        shortest = [each for each in kind_of.metadata if isinstance(each, annotated_types.MinLen)]
        return _examples(kind_of.inner, shortest[0].min_length if shortest else 1)
    if kind_of.is_map:
        return {"chat": _example(kind_of.inner)}
    if kind_of.model is not None:
        return _smallest(kind_of.model)
    if kind_of.enum is not None:
        return next(iter(kind_of.enum)).value
    if kind_of.annotation is bool:
        return True
    lowest = [each.ge for each in kind_of.metadata if isinstance(each, annotated_types.Ge)]
    return lowest[0] if lowest else 1


def _examples(inner: PlainType, count: int) -> list[Any]:
    if inner.enum is not None:
        return [each.value for each in inner.enum][:count]
    return [_example(inner) for _ in range(count)]


def _smallest(model: type[SpecModel]) -> dict[str, Any]:
    """What a group of fields must hold; its first field where nothing is required."""
    fields = {(info.alias or name): info for name, info in model.model_fields.items()}
    needed = {name: info for name, info in fields.items() if info.is_required()}
    chosen = needed or dict(list(fields.items())[:1])
    return {
        name: example_of_field(info, PlainType.of(info.annotation, info.metadata))
        for name, info in chosen.items()
    }
