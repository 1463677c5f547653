"""What is said about the fields of documents is what the models check."""

from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter

from controlplane.specs.explained_kind import SPEC_BY_KIND, doc_of_kind
from controlplane.specs.field_docs import UnknownFieldError, example_of, field_docs, find_field
from controlplane.specs.kind import Kind, SpecModel
from tests.controlplane.config_documents import SERVICE, documents

FIELDS = [(kind, field) for kind in SPEC_BY_KIND for field in field_docs(kind)]
EVERY_FIELD = pytest.mark.parametrize(
    ("kind", "field"), FIELDS, ids=[f"{kind}.{field.path}" for kind, field in FIELDS]
)


@EVERY_FIELD
def test_every_field_says_what_it_means(kind: str, field: Any) -> None:
    assert len(field.doc) > 5, "write a text below the field"
    assert field.what


@EVERY_FIELD
def test_the_example_of_every_field_is_accepted_by_its_model(kind: str, field: Any) -> None:
    owner: Any = SPEC_BY_KIND[kind]
    *outer, name = field.path.replace("[]", "").replace(".*", "").split(".")
    for part in outer:
        owner = _model_inside(owner.model_fields[part].annotation)
    fields = {info.alias or named: info for named, info in owner.model_fields.items()}
    info = fields[name]
    whole: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation

    # As YAML has it: lists and words, not tuples and enum members.
    TypeAdapter[Any](whole).validate_python(field.example, strict=False)
    assert next(iter(example_of(kind, field.path))) == field.path.split(".")[0].split("[")[0]


def _model_inside(annotation: Any) -> type[SpecModel]:
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _model_inside(part)
        if found is not None:
            return found
    return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    "path",
    [
        "classes[].max_queue",
        "classes.max_queue",
        "spec.classes[0].max_queue",
        "classes[3].max_queue",
    ],
)
def test_a_field_is_found_however_its_path_is_written(path: str) -> None:
    found = find_field(Kind.ADMISSION_POLICY, path)

    assert found.path == "classes[].max_queue"
    assert (found.default, found.bounds) == (512, "at least 0, at most 1,000,000")


@pytest.mark.parametrize("path", ["tenants.*.weight", "tenants.acme.weight", "tenants.weight"])
def test_the_keys_of_a_map_may_be_any_word_or_left_out(path: str) -> None:
    assert find_field(Kind.ADMISSION_POLICY, path).path == "tenants.*.weight"


@pytest.mark.parametrize(
    ("path", "near"),
    [("clases.match", "classes[].match"), ("match", "classes[].match"), ("limts", "limits")],
)
def test_an_unknown_path_names_the_nearest_valid_one(path: str, near: str) -> None:
    with pytest.raises(UnknownFieldError) as caught:
        find_field(Kind.ADMISSION_POLICY, path)

    assert f"did you mean AdmissionPolicy.{near}?" in str(caught.value)
    assert "Its fields: classes, limits, tenants, overload, routing" in str(caught.value)


def test_quantities_are_told_as_they_are_written_and_not_as_they_are_kept() -> None:
    watermark = find_field(Kind.ADMISSION_POLICY, "limits.kv.watermark")

    assert (watermark.default, watermark.what) == ("5%", "percentage from 0% to 100%")
    assert find_field(Kind.SLO_CONTRACT, "classes.x.objectives.for").example == "99.9%"


def test_every_key_of_real_documents_is_explained() -> None:
    for document in documents(*SERVICE):
        for path in _paths(document.canonical["spec"]):
            if not path.startswith("settings."):
                assert find_field(document.kind, path)


def _paths(value: Any, prefix: str = "") -> list[str]:
    if isinstance(value, list):
        return [path for item in value for path in _paths(item, prefix)]
    if not isinstance(value, dict):
        return []
    here = [f"{prefix}{key}" for key in value]
    inside = [path for key in value for path in _paths(value[key], f"{prefix}{key}.")]
    # The keys of a map are names that somebody chose.
    return [path for path in here + inside if path.split(".")[-1] not in ("interactive", "default")]


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_says_what_it_is(kind: Kind) -> None:
    assert doc_of_kind(kind)
