"""Engines and launchers must be installed; the engine's own plugin judges its settings."""

from controlplane.specs.documents import load_documents
from controlplane.specs.installed import INSTALLED_CHECKS
from tests.controlplane.config_documents import DEPLOYMENT, DESIGN_POLICY, ENGINE


def problems(text: str) -> list[str]:
    return [str(p) for p in load_documents([("f.yaml", text)], checks=INSTALLED_CHECKS).problems]


def test_settings_that_the_engine_takes_are_fine() -> None:
    assert problems(ENGINE) == []


def test_a_wrong_setting_is_located_at_its_key() -> None:
    [message] = problems(ENGINE.replace("{model:", "{modl:"))

    assert message.startswith(
        "f.yaml:3:35: spec.settings.modl: unknown setting; did you mean model?"
    )


def test_settings_that_do_not_fit_each_other_are_located_together() -> None:
    text = "apiVersion: pilothouse/v1\nkind: EngineConfig\nmetadata: {name: s}\nspec:\n"
    text += "  engine: simulator\n  settings: {num_blocks: 4, max_model_len: 65}\n"
    [message] = problems(text)

    assert message.startswith("f.yaml:6:3: spec.settings: max_model_len is 65, but")


def test_an_engine_that_is_not_installed_lists_the_installed_ones() -> None:
    [message] = problems(ENGINE.replace("engine: openai", "engine: openia"))

    assert message.startswith("f.yaml:3:16: spec.engine: no plugin 'openia'")
    assert "did you mean 'openai'?" in message


def test_a_plugin_that_is_no_engine_is_refused() -> None:
    [message] = problems(ENGINE.replace("engine: openai", "engine: local"))

    assert "runs no engine of that name" in message


def test_a_launcher_that_is_not_installed_is_refused() -> None:
    [message] = problems(DEPLOYMENT.replace("replicas: 2", "launcher: locl"))

    assert message.startswith("f.yaml:3:82: spec.launcher: no plugin 'locl' is installed")
    assert "did you mean local?" in message
    assert problems(DEPLOYMENT) == []


def test_a_routing_policy_that_nobody_has_is_located_with_the_nearest_one() -> None:
    routing = "  routing: {policy: prefx}\n"
    [message] = problems(DESIGN_POLICY.rstrip("\n") + "\n" + routing)

    assert "spec.routing.policy: no routing policy 'prefx'; did you mean prefix?" in message
    assert problems(DESIGN_POLICY.rstrip("\n") + "\n" + routing.replace("prefx", "prefix")) == []
