"""What can be written in a field, in words."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import annotated_types

from controlplane.specs.attribute_docs import docs_of_attributes
from controlplane.specs.plain_type import PlainType
from controlplane.specs.validation import members_by_tag


def words_of_type(kind_of: PlainType) -> str:
    """What a value of this type is called."""
    if kind_of.written is not None:
        return kind_of.written.what
    if kind_of.is_list:
        return f"list, each item a {words_of_type(kind_of.inner)}"
    if kind_of.is_map:
        return f"map from a name to a {words_of_type(kind_of.inner)}"
    if kind_of.model is not None:
        return "group of fields"
    if members_by_tag(kind_of.annotation):
        return "group of fields, of which one says which kind it is"
    if kind_of.enum is not None:
        return "word: " + ", ".join(str(each.value) for each in kind_of.enum)
    plain = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return plain.get(kind_of.annotation, "value of any type")


def words_of_bounds(metadata: Sequence[Any]) -> str:
    """Such as `at least 0, at most 512`; empty without any."""
    words = []
    for each in metadata:
        match each:
            case annotated_types.Ge(ge=bound):
                words.append(f"at least {_number(bound)}")
            case annotated_types.Gt(gt=bound):
                words.append(f"more than {_number(bound)}")
            case annotated_types.Le(le=bound):
                words.append(f"at most {_number(bound)}")
            case annotated_types.Lt(lt=bound):
                words.append(f"less than {_number(bound)}")
            case annotated_types.MinLen(min_length=bound):
                words.append(f"at least {_number(bound)} long")
            case annotated_types.MaxLen(max_length=bound):
                words.append(f"at most {_number(bound)} long")
    return ", ".join(words)


def _number(bound: Any) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound}"


def choices_of_enum(enum: type[Enum]) -> tuple[tuple[str, str], ...]:
    """Each valid word, and what it means."""
    docs = docs_of_attributes(enum)
    return tuple((str(each.value), docs.get(each.name, "")) for each in enum)
