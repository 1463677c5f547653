"""What can be written in a document, read off the models that check it: never a second copy."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic.fields import FieldInfo

from controlplane.specs.attribute_docs import docs_of_fields, in_one_line
from controlplane.specs.explained_kind import SPEC_BY_KIND
from controlplane.specs.field_example import default_of, example_of_field
from controlplane.specs.field_path import is_same_path, path_words, spec_at, words_without_keys
from controlplane.specs.field_words import choices_of_enum, words_of_bounds, words_of_type
from controlplane.specs.kind import SpecModel, nearest
from controlplane.specs.plain_type import PlainType
from controlplane.specs.validation import is_tag, members_by_tag


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


def field_docs(kind: str) -> list[FieldDoc]:
    """Every field of a kind, each before those inside it."""
    return list(_by_path(kind).values())


def find_field(kind: str, path: str) -> FieldDoc:
    """The field that somebody means. Raises UnknownFieldError."""
    fields = _by_path(kind)
    wanted = path_words(path)
    for known, field in fields.items():
        if is_same_path(wanted, path_words(known)):
            return field
    spellings = {".".join(words_without_keys(known)): known for known in fields}
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
    wanted = path_words(path)
    for known, member in _read(kind)[1].items():
        length = len(path_words(known))
        if not is_same_path(wanted[:length], path_words(known)):
            continue
        variant = _variant(known, member)
        inside = [path_words(field.path)[length:] for field in variant.fields]
        if wanted[length:] and not any(is_same_path(wanted[length:], each) for each in inside):
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
    return spec_at(path, _by_path(kind)[path].example)


def _by_path(kind: str) -> Mapping[str, FieldDoc]:
    return _read(kind)[0]


@cache
def _read(kind: str) -> tuple[Mapping[str, FieldDoc], Mapping[str, type[SpecModel]]]:
    """The fields of a kind, and the models of its groups that come in several kinds."""
    fields: dict[str, FieldDoc] = {}
    variants: dict[str, type[SpecModel]] = {}
    _collect(SPEC_BY_KIND[kind], "", fields, variants)
    return fields, variants


def _variant(path: str, model: type[SpecModel]) -> VariantDoc:
    group, _, word = path.rpartition(".")
    fields: dict[str, FieldDoc] = {}
    _collect(model, f"{path}.", fields, {})
    [tag] = [name for name, info in model.model_fields.items() if is_tag(info.annotation)]
    del fields[f"{path}.{tag}"]
    said = {
        field.path.removeprefix(f"{path}."): field.example
        for field in fields.values()
        if field.is_required or field.default not in (None, [], {}, "")
    }
    return VariantDoc(
        path=path,
        doc=in_one_line(model.__doc__),
        fields=tuple(fields.values()),
        example=spec_at(group, {tag: word, **said}),
    )


def _collect(
    model: type[SpecModel],
    prefix: str,
    fields: dict[str, FieldDoc],
    variants: dict[str, type[SpecModel]],
) -> None:
    docs = docs_of_fields(model)
    for name, info in model.model_fields.items():
        path = f"{prefix}{info.alias or name}"
        kind_of = PlainType.of(info.annotation, info.metadata)
        fields[path] = _field(path, info, kind_of, docs.get(name, ""))
        inside, suffix = kind_of.innermost
        if inside.model is not None:
            _collect(inside.model, f"{path}{suffix}.", fields, variants)
        for word, member in members_by_tag(inside.annotation).items():
            variants[f"{path}{suffix}.{word}"] = member


def _field(path: str, info: FieldInfo, kind_of: PlainType, doc: str) -> FieldDoc:
    inside, _ = kind_of.innermost
    default = default_of(info)
    members = members_by_tag(inside.annotation)
    return FieldDoc(
        path=path,
        what=words_of_type(kind_of),
        is_required=info.is_required(),
        default=default,
        bounds=words_of_bounds(kind_of.metadata),
        doc=doc,
        choices=choices_of_enum(inside.enum)
        if inside.enum is not None
        else tuple((str(word), in_one_line(member.__doc__)) for word, member in members.items()),
        example=example_of_field(info, kind_of),
        has_fields=inside.model is not None,
    )
