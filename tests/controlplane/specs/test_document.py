"""A digest is of what was said, not of how it was written down."""

import json

import pytest

from controlplane.specs.document import StoredDocumentError, read_stored_spec
from controlplane.specs.kind import Kind, UnknownKindError, digest_of, find_kind
from tests.controlplane.config_documents import DESIGN_POLICY, SERVICE, documents

POLICY_WRITTEN_ANOTHER_WAY = """\
# The same policy.
spec:
  overload:
    retry_budget: 10.0%
    degrade: {max_tokens: 256, when: 'queue_age>1000ms'}
    shed:
      - batch
  tenants:
    default: {tokens_per_minute: 200000, weight: 1.0}
  limits:
    kv: {watermark: 5.00%, quantile: 0.90, reserve: "expected"}
    max_active_per_replica: 32
  classes:
    - name: interactive
      deadline: 10000ms
      priority: 100
      max_queue: 64
      match: "tenant.tier == \\"gold\\""
    - {max_queue: 512, name: batch, aging: 60/m, priority: 10}
metadata:
  name: chat
kind: AdmissionPolicy
apiVersion: pilothouse/v1
"""


def test_key_order_format_and_spelling_of_quantities_do_not_matter() -> None:
    [one], [other] = documents(DESIGN_POLICY), documents(POLICY_WRITTEN_ANOTHER_WAY)

    assert one.digest == other.digest
    assert one.canonical == other.canonical


def test_the_digest_is_of_the_canonical_form_and_stays_what_it_is() -> None:
    [policy] = documents(DESIGN_POLICY)

    assert policy.digest == digest_of(policy.canonical)
    # A change of this value would make a new revision of every document in every installation.
    assert policy.digest == ("a7a6ae23ca7dd38067858360d2e97e3f80d25dbb9fa56b4c350bc923acc5612e")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: chat", "name: other"),
        ("priority: 100", "priority: 101"),
        ('"gold"', '"silver"'),
        ("max_queue: 64, ", ""),
        ("queue_age > 1s", "queue_age >= 1s"),
    ],
)
def test_every_change_of_meaning_changes_the_digest(old: str, new: str) -> None:
    [one], [other] = documents(DESIGN_POLICY), documents(DESIGN_POLICY.replace(old, new))

    assert one.digest != other.digest


def test_the_order_of_classes_matters() -> None:
    lines = DESIGN_POLICY.splitlines(keepends=True)
    lines[4], lines[5] = lines[5], lines[4]

    [one], [other] = documents(DESIGN_POLICY), documents("".join(lines))

    assert one.digest != other.digest


def test_defaults_are_not_filled_in() -> None:
    [tenant] = documents("kind: Tenant\nmetadata: {name: acme}\nspec: {}\n")

    assert tenant.canonical["spec"] == {}


def test_what_is_stored_is_read_back_as_it_was() -> None:
    for document in documents(*SERVICE):
        stored = json.loads(json.dumps(document.canonical))
        assert read_stored_spec(document.kind, stored) == document.spec


def test_a_stored_document_that_cannot_be_read_says_which() -> None:
    stored = {"metadata": {"name": "x"}, "spec": {"artifact": 5}}

    with pytest.raises(StoredDocumentError, match="stored Model document"):
        read_stored_spec(Kind.MODEL, stored)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("model", Kind.MODEL),
        ("Models", Kind.MODEL),
        ("engine-config", Kind.ENGINE_CONFIG),
        ("SLOCONTRACTS", Kind.SLO_CONTRACT),
        ("admissionpolicies", Kind.ADMISSION_POLICY),
        ("tenant", Kind.TENANT),
    ],
)
def test_kinds_are_found_in_any_case_and_number(word: str, kind: Kind) -> None:
    assert find_kind(word) is kind


def test_an_unknown_kind_lists_the_valid_ones() -> None:
    with pytest.raises(
        UnknownKindError, match=r"did you mean Deployment.*Kinds: Model, EngineConfig"
    ):
        find_kind("deploment")
