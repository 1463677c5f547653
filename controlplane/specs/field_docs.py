"""What can be written in a document, read off the models that check it: never a second copy.

A path is one as people write it: `classes.match`, `spec.classes[0].match` and
`classes[].match` name the same field; the keys of a map may be left out or be any word.
"""

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import annotated_types
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from controlplane.specs.document import SPECS
from controlplane.specs.kind import Kind, SpecModel, UnknownKindError, find_kind, nearest
from controlplane.specs.scenario import SCENARIO, ScenarioSpec
from controlplane.specs.unenforced import UNENFORCED
from controlplane.specs.validation import is_tag, members_by_tag
from controlplane.specs.written import Written

SPEC_BY_KIND: Mapping[str, type[SpecModel]] = {
    **{str(kind): spec for kind, spec in SPECS.items()},
    SCENARIO: ScenarioSpec,
}
"""Every kind that can be written, those that are never applied included."""

_ANY_KEY = re.compile(r"\*|<[a-z_]+>")
_INDEX = re.compile(r"\[[0-9]*\]")


class UnknownFieldError(LookupError):
    """No field has this path; the message names the nearest that exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDoc:
    """One field of a kind."""

    path: str
    """From the spec: `classes[].match`, `tenants.*.weight`."""
    what: str
    """What is written there, in words."""
    is_required: bool
    default: Any
    """As it would be written; None where leaving it out says that."""
    bounds: str
    """Such as `at least 0, at most 512`; empty without any."""
    doc: str
    choices: tuple[tuple[str, str], ...]
    """Valid words and what they mean."""
    example: Any
    """A value that can be written there, as JSON types."""
    unenforced: str | None
    """What happens instead, where nothing is done about it yet."""
    has_fields: bool
    """It is an object, a list or a map of objects, with fields of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantDoc:
    """One kind of a group of fields of which one says which kind it is."""

    path: str
    """Of the group, with the word behind it: `faults[].retry_storm`."""
    doc: str
    fields: tuple[FieldDoc, ...]
    """Its own, without the one that says which kind it is; their paths begin with its own."""
    example: Any
    """A spec that holds it and nothing else."""


def find_explained_kind(word: str) -> str | None:
    """The kind that a person means, those that are never applied included; None: no kind."""
    if word.casefold() == SCENARIO.casefold():
        return SCENARIO
    try:
        return find_kind(word)
    except UnknownKindError:
        return None


def field_docs(kind: str) -> list[FieldDoc]:
    """Every field of a kind, each before those inside it."""
    return list(_by_path(kind).values())


def doc_of_kind(kind: str) -> str:
    """What a document of this kind is."""
    return _plain(SPEC_BY_KIND[kind].__doc__)


def find_field(kind: str, path: str) -> FieldDoc:
    """The field that somebody means. Raises UnknownFieldError."""
    fields = _by_path(kind)
    wanted = _skeleton(path)
    for known, field in fields.items():
        if _is_same(wanted, _skeleton(known)):
            return field
    spellings = {".".join(_shortest(known)): known for known in fields}
    near = nearest(".".join(wanted), spellings)
    last = [known for known in spellings if known.split(".")[-1] == wanted[-1]] if wanted else []
    best = spellings[near] if near else (spellings[last[0]] if last else None)
    hint = f"; did you mean {kind}.{best}?" if best else "."
    top = ", ".join(known for known in fields if "." not in known and "[" not in known)
    raise UnknownFieldError(f"{kind} has no field {path!r}{hint} Its fields: {top}")


def find_variant(kind: str, path: str) -> VariantDoc | None:
    """The kind of a group that somebody means, or of which the path names a field; None: none.

    Raises UnknownFieldError for a field that this kind does not have.
    """
    wanted = _skeleton(path)
    for known, member in _read(kind)[1].items():
        length = len(_skeleton(known))
        if not _is_same(wanted[:length], _skeleton(known)):
            continue
        variant = _variant(known, member)
        inside = [_skeleton(field.path)[length:] for field in variant.fields]
        if wanted[length:] and not any(_is_same(wanted[length:], each) for each in inside):
            names = [field.path.removeprefix(f"{known}.") for field in variant.fields]
            near = nearest(".".join(wanted[length:]), names)
            hint = f"; did you mean {near}?" if near else "."
            raise UnknownFieldError(
                f"{kind}.{known} has no field {'.'.join(wanted[length:])!r}{hint} "
                f"Its fields: {', '.join(names)}"
            )
        return variant
    return None


def example_of(kind: str, path: str) -> dict[str, Any]:
    """A spec that holds the field at `path` and nothing else."""
    return _wrap(path, _by_path(kind)[path].example)


def _wrap(path: str, value: Any) -> dict[str, Any]:
    for part in reversed(path.replace("[]", ".[]").split(".")):
        value = [value] if part == "[]" else {("chat" if part == "*" else part): value}
    whole: dict[str, Any] = value
    return whole


@dataclass(frozen=True, slots=True)
class _Type:
    """A type, taken apart."""

    annotation: Any
    metadata: tuple[Any, ...]

    @classmethod
    def of(cls, annotation: Any, metadata: Sequence[Any] = ()) -> "_Type":
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
    def inner(self) -> "_Type":
        """Of the items of a list, or of the values of a map."""
        arguments = get_args(self.annotation)
        return _Type.of(arguments[1] if self.is_map else arguments[0])

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


def _by_path(kind: str) -> Mapping[str, FieldDoc]:
    return _read(kind)[0]


@cache
def _read(kind: str) -> tuple[Mapping[str, FieldDoc], Mapping[str, type[SpecModel]]]:
    """The fields of a kind, and the models of its groups that come in several kinds."""
    fields: dict[str, FieldDoc] = {}
    variants: dict[str, type[SpecModel]] = {}
    _collect(SPEC_BY_KIND[kind], "", _unenforced_of(kind), None, fields, variants)
    return fields, variants


def _variant(path: str, model: type[SpecModel]) -> VariantDoc:
    group, _, word = path.rpartition(".")
    fields: dict[str, FieldDoc] = {}
    _collect(model, f"{path}.", {}, None, fields, {})
    [tag] = [name for name, info in model.model_fields.items() if is_tag(info.annotation)]
    del fields[f"{path}.{tag}"]
    said = {
        field.path.removeprefix(f"{path}."): field.example
        for field in fields.values()
        if field.is_required or field.default not in (None, [], {}, "")
    }
    return VariantDoc(
        path=path,
        doc=_plain(model.__doc__),
        fields=tuple(fields.values()),
        example=_wrap(group, {tag: word, **said}),
    )


def _unenforced_of(kind: str) -> Mapping[str, str]:
    if kind != SCENARIO:
        return UNENFORCED.get(Kind(kind), {})
    # It holds the specs of other kinds, which go as far there as they go when applied.
    inside = {"policy": Kind.ADMISSION_POLICY, "contract": Kind.SLO_CONTRACT}
    return {
        f"{field}.{path}": instead
        for field, of_kind in inside.items()
        for path, instead in UNENFORCED.get(of_kind, {}).items()
    }


def _collect(
    model: type[SpecModel],
    prefix: str,
    unenforced: Mapping[str, str],
    inherited: str | None,
    fields: dict[str, FieldDoc],
    variants: dict[str, type[SpecModel]],
) -> None:
    docs = _docs_of(model)
    for name, info in model.model_fields.items():
        path = f"{prefix}{info.alias or name}"
        kind_of = _Type.of(info.annotation, info.metadata)
        instead = inherited or unenforced.get(path)
        fields[path] = _field(path, info, kind_of, docs.get(name, ""), instead)
        inside, suffix = kind_of, ""
        while inside.is_list or inside.is_map:
            suffix += "[]" if inside.is_list else ".*"
            inside = inside.inner
        if inside.model is not None:
            below = instead or unenforced.get(path + suffix)
            _collect(inside.model, f"{path}{suffix}.", unenforced, below, fields, variants)
        for word, member in members_by_tag(inside.annotation).items():
            variants[f"{path}{suffix}.{word}"] = member


def _field(
    path: str, info: FieldInfo, kind_of: _Type, doc: str, unenforced: str | None
) -> FieldDoc:
    inside = kind_of
    while inside.is_list or inside.is_map:
        inside = inside.inner
    default = _default(info)
    members = members_by_tag(inside.annotation)
    return FieldDoc(
        path=path,
        what=_words(kind_of),
        is_required=info.is_required(),
        default=default,
        bounds=_bounds(kind_of.metadata),
        doc=doc,
        choices=_choices(inside.enum)
        if inside.enum is not None
        else tuple((str(word), _plain(member.__doc__)) for word, member in members.items()),
        example=_example_of_field(info, kind_of),
        unenforced=unenforced,
        has_fields=inside.model is not None,
    )


def _words(kind_of: _Type) -> str:
    if kind_of.written is not None:
        return kind_of.written.what
    if kind_of.is_list:
        return f"list, each item a {_words(kind_of.inner)}"
    if kind_of.is_map:
        return f"map from a name to a {_words(kind_of.inner)}"
    if kind_of.model is not None:
        return "group of fields"
    if members_by_tag(kind_of.annotation):
        return "group of fields, of which one says which kind it is"
    if kind_of.enum is not None:
        return "word: " + ", ".join(str(each.value) for each in kind_of.enum)
    plain = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return plain.get(kind_of.annotation, "value of any type")


def _default(info: FieldInfo) -> Any:
    if info.is_required():
        return None
    value = info.get_default(call_default_factory=True)
    whole: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    return TypeAdapter[Any](whole).dump_python(
        value, mode="json", by_alias=True, exclude_unset=True
    )


def _bounds(metadata: Sequence[Any]) -> str:
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


def _example_of_field(info: FieldInfo, kind_of: _Type) -> Any:
    """The one that stands beside the field, its default, or one that its type allows."""
    if info.examples:
        return info.examples[0]
    default = _default(info)
    return _example(kind_of) if default in (None, False, {}, []) else default


def _example(kind_of: _Type) -> Any:
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


def _examples(inner: _Type, count: int) -> list[Any]:
    if inner.enum is not None:
        return [each.value for each in inner.enum][:count]
    return [_example(inner) for _ in range(count)]


def _smallest(model: type[SpecModel]) -> dict[str, Any]:
    """What a group of fields must hold; its first field where nothing is required."""
    fields = {(info.alias or name): info for name, info in model.model_fields.items()}
    needed = {name: info for name, info in fields.items() if info.is_required()}
    chosen = needed or dict(list(fields.items())[:1])
    return {
        name: _example_of_field(info, _Type.of(info.annotation, info.metadata))
        for name, info in chosen.items()
    }


def _choices(enum: type[Enum]) -> tuple[tuple[str, str], ...]:
    docs = _attribute_docs(enum)
    return tuple((str(each.value), docs.get(each.name, "")) for each in enum)


def _docs_of(model: type[SpecModel]) -> Mapping[str, str]:
    """Of its fields, those that it inherits included."""
    docs: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, SpecModel):
            docs |= _attribute_docs(each)
    return docs


@cache
def _attribute_docs(owner: type) -> Mapping[str, str]:
    """The texts below the attributes of a class."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(definition, ast.ClassDef)
    docs = {}
    for before, after in itertools.pairwise(definition.body):
        match before, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = _plain(text)
    return docs


def _plain(text: str | None) -> str:
    return " ".join((text or "").split())


def _skeleton(path: str) -> list[str]:
    """The words of a path: without `spec`, indexes, and what stands for any key."""
    words = [word for word in _INDEX.sub("", path).split(".") if word]
    words = words[1:] if words[:1] == ["spec"] else words
    return ["*" if _ANY_KEY.fullmatch(word) else word for word in words]


def _is_same(wanted: Sequence[str], known: Sequence[str]) -> bool:
    """A * of `known` takes any word, or none."""
    if not known:
        return not wanted
    if known[0] == "*":
        return _is_same(wanted, known[1:]) or (bool(wanted) and _is_same(wanted[1:], known[1:]))
    return bool(wanted) and wanted[0] == known[0] and _is_same(wanted[1:], known[1:])


def _shortest(path: str) -> list[str]:
    return [word for word in _skeleton(path) if word != "*"]
