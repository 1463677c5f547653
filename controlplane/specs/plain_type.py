"""The type of a field, without what pydantic and typing put around it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from controlplane.specs.kind import SpecModel
from controlplane.specs.written import Written


@dataclass(frozen=True, slots=True)
class PlainType:
    """A type, taken apart."""

    annotation: Any
    metadata: tuple[Any, ...]

    @classmethod
    def of(cls, annotation: Any, metadata: Sequence[Any] = ()) -> "PlainType":
        """Without None and Annotated around it."""
        found = list(metadata)
        while True:
            if get_origin(annotation) is Annotated:
                annotation, *more = get_args(annotation)
                found += more
            elif get_origin(annotation) in (Union, UnionType):
                rest = [each for each in get_args(annotation) if each is not NoneType]
                if len(rest) != 1:
                    return cls(annotation, tuple(found))
                annotation = rest[0]
            else:
                # Field(...) inside Annotated carries its bounds and examples.
                for each in [each for each in found if isinstance(each, FieldInfo)]:
                    found += each.metadata
                return cls(annotation, tuple(found))

    @property
    def is_list(self) -> bool:
        return get_origin(self.annotation) in (tuple, list)

    @property
    def is_map(self) -> bool:
        return get_origin(self.annotation) is dict

    @property
    def inner(self) -> "PlainType":
        """Of the items of a list, or of the values of a map."""
        arguments = get_args(self.annotation)
        return PlainType.of(arguments[1] if self.is_map else arguments[0])

    @property
    def innermost(self) -> tuple["PlainType", str]:
        """What lists and maps hold in the end, and their part of its path, such as `[].*`."""
        inside, suffix = self, ""
        while inside.is_list or inside.is_map:
            suffix += "[]" if inside.is_list else ".*"
            inside = inside.inner
        return inside, suffix

    @property
    def model(self) -> type[SpecModel] | None:
        is_model = isinstance(self.annotation, type) and issubclass(self.annotation, SpecModel)
        return self.annotation if is_model else None

    @property
    def enum(self) -> type[Enum] | None:
        is_enum = isinstance(self.annotation, type) and issubclass(self.annotation, Enum)
        return self.annotation if is_enum else None

    @property
    def written(self) -> Written | None:
        return next((each for each in self.metadata if isinstance(each, Written)), None)
