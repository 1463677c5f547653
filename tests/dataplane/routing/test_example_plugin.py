"""The routing plugin that is shown to who wants to write one works, and its page names what is."""

import dataclasses
import importlib.util
import re
from pathlib import Path
from random import Random
from types import ModuleType

import pluggy
import pytest

from dataplane import hooks
from dataplane.policy import RoutingTerms
from dataplane.routing.builtin import BUILTIN_POLICIES
from dataplane.routing.candidate import Candidate
from dataplane.routing.ejection import EjectionTerms
from dataplane.routing.routing import Routing
from dataplane.routing.terms import create_routing
from tests.dataplane.routing.candidates import candidate, routed

EXAMPLES = Path(__file__).parents[3] / "ops" / "examples" / "routing"


def load_plugin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fewest_tokens", EXAMPLES / "fewest_tokens.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def create(**settings: object) -> Routing:
    plugins = pluggy.PluginManager(hooks.PROJECT)
    plugins.add_hookspecs(hooks)
    plugins.register(load_plugin())
    plugins.check_pending()
    terms = RoutingTerms(policy="fewest_tokens", settings=dict(settings))
    return create_routing(
        terms,
        Random(1),
        lambda terms, random: plugins.hook.pilothouse_create_router(terms=terms, random=random),
    )


def test_the_example_takes_the_replica_with_the_fewest_tokens_ahead() -> None:
    policy = create(output_weight=0.1).policy
    long_prompt = candidate("a", num_prompt_tokens_ahead=900)
    long_answers = candidate("b", num_output_tokens_ahead=5000)
    pick = policy.choose(routed(), [long_prompt, long_answers], True)
    assert (pick.chosen, pick.reason) == (long_answers, "500 tokens ahead, the fewest of 2")
    even = create().policy
    assert even.choose(routed(), [long_prompt, long_answers], False).chosen is long_prompt


def test_the_example_refuses_settings_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="fewest_tokens takes output_weight"):
        create(weight=2)


def test_the_page_names_every_policy_and_setting_and_nothing_that_is_not_there() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    words = set(re.findall(r"`([a-z_0-9]+)`", page))
    assert set(BUILTIN_POLICIES) <= words
    terms = {field.name for field in dataclasses.fields(EjectionTerms)} - {"window_seconds"}
    assert terms <= words
    readable = {
        name for name in words if name.startswith(("num_", "max_out", "prefill_tokens_per_second"))
    }
    of_candidate = {field.name for field in dataclasses.fields(Candidate)}
    of_request = {"num_prompt_tokens", "num_output_tokens", "num_cached_tokens"}
    assert readable <= of_candidate | of_request
