"""A name that is used and that nobody defines is an error where it is used."""

from pathlib import Path

from controlplane.specs.documents import load_documents
from controlplane.specs.references import Catalog
from controlplane.store.catalog import StoreCatalog
from controlplane.store.revisions import apply_documents
from tests.controlplane.config_documents import (
    DEPLOYMENT,
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    ENGINE,
    MODEL,
    SERVICE,
    config_database,
    documents,
    load,
    messages,
)


def test_names_may_be_defined_anywhere_in_the_input() -> None:
    assert messages(*reversed(SERVICE)) == []


def test_every_undefined_name_is_reported_with_the_nearest() -> None:
    deployment = DEPLOYMENT.replace("model: smollm2", "model: smolm2")

    assert messages(MODEL, deployment) == [
        "f1.yaml:3:15: spec.model: there is no Model called smolm2; did you mean smollm2? "
        "There is: smollm2",
        "f1.yaml:3:31: spec.engine: there is no EngineConfig called attached; there is none at all",
        "f1.yaml:3:49: spec.policy: there is no AdmissionPolicy called chat; there is none at all",
        "f1.yaml:3:65: spec.contract: there is no SLOContract called chat; there is none at all",
    ]


def test_a_document_with_problems_of_its_own_still_defines_its_name() -> None:
    broken = MODEL.replace("path:", "pth:")

    found = load(broken, ENGINE, DESIGN_CONTRACT, DESIGN_POLICY, DEPLOYMENT).problems

    assert {problem.file for problem in found} == {"f0.yaml"}


def test_away_from_the_control_plane_only_the_input_is_judged() -> None:
    assert load_documents([("d.yaml", DEPLOYMENT)]).problems == ()

    away = load_documents(
        [("p.yaml", DESIGN_POLICY.replace("name: interactive", "name: gold")),
         ("c.yaml", DESIGN_CONTRACT), ("d.yaml", DEPLOYMENT)]
    )  # fmt: skip

    assert ["which has no such class" in problem.message for problem in away.problems] == [True]


def test_tenants_of_a_policy_must_exist_and_default_always_does() -> None:
    policy = DESIGN_POLICY.replace("{default: {", "{default: {}, acme: {")
    tenant = "kind: Tenant\nmetadata: {name: acme}\nspec: {tier: gold}\n"

    [message] = messages(policy)

    assert message.startswith("f0.yaml:8:26: spec.tenants.acme: there is no Tenant called acme")
    assert messages(policy, tenant) == []


def test_the_fallback_of_a_policy_is_a_deployment_and_never_the_one_that_falls_back() -> None:
    def falling_back_to(name: str) -> str:
        return DESIGN_POLICY.replace("max_tokens: 256", f"max_tokens: 256, fallback: {name}")

    [unknown] = messages(MODEL, ENGINE, DESIGN_CONTRACT, falling_back_to("chatt"), DEPLOYMENT)
    assert "spec.overload.degrade.fallback: there is no Deployment called chatt; did you" in unknown

    [own] = messages(MODEL, ENGINE, DESIGN_CONTRACT, falling_back_to("chat"), DEPLOYMENT)
    assert own.startswith("f3.yaml:9:")
    assert "whose overload.degrade.fallback is chat itself; name another deployment" in own

    small = DEPLOYMENT.replace("name: chat", "name: small").replace("policy: chat", "policy: few")
    few = DESIGN_POLICY.replace("name: chat", "name: few")
    policies = (falling_back_to("small"), few)
    assert messages(MODEL, ENGINE, DESIGN_CONTRACT, *policies, DEPLOYMENT, small) == []


def test_a_contract_may_only_promise_something_to_classes_of_the_policy() -> None:
    contract = DESIGN_CONTRACT.replace("    interactive:", "    interactiv:")

    [message] = messages(MODEL, ENGINE, contract, DESIGN_POLICY, DEPLOYMENT)

    assert message.startswith("f2.yaml:7:5: spec.classes.interactiv: deployment chat joins")
    assert "did you mean interactive?" in message


def test_a_policy_that_drops_a_promised_class_is_refused_though_the_rest_is_stored(
    tmp_path: Path,
) -> None:
    policy = DESIGN_POLICY.replace("name: interactive", "name: fast")

    [message] = stored_then(tmp_path, SERVICE, policy)

    assert message.startswith("new.yaml:5:5: spec.classes: deployment chat joins contract chat")


def test_a_pinned_revision_must_exist(tmp_path: Path) -> None:
    pinned = DEPLOYMENT.replace("model: smollm2", "model: smollm2@2")

    assert stored_then(tmp_path, SERVICE, DEPLOYMENT.replace("smollm2", "smollm2@1")) == []
    assert stored_then(tmp_path, (), pinned) == [
        "new.yaml:3:15: spec.model: Model smollm2 has no revision 2 yet; revisions: 1. "
        "A bare smollm2 means the latest"
    ]


def test_a_deployment_pinned_to_an_old_policy_is_judged_by_that_one(tmp_path: Path) -> None:
    pinned = DEPLOYMENT.replace("policy: chat", "policy: chat@1")
    stored_then(tmp_path, (*SERVICE[:-1], pinned), "")

    assert stored_then(tmp_path, (), DESIGN_POLICY.replace("name: interactive", "name: fast")) == []


def stored_then(folder: Path, stored: tuple[str, ...], text: str) -> list[str]:
    """Problems of `text`, applied after what is `stored`."""
    database = config_database(folder)
    try:
        with database.session() as session:
            apply_documents(session, documents(*stored), author="a", reason="")
        with database.reading() as session:
            catalog: Catalog = StoreCatalog(session)
            return [str(p) for p in load_documents([("new.yaml", text)], catalog).problems]
    finally:
        database.close()
