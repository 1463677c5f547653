"""Notifiers as somebody configured them."""

from pathlib import Path

import pytest

from controlplane.slo.alerting_settings import NotifierPlan, parse_plan
from controlplane.slo.notices.configured import create_notifiers
from controlplane.slo.notices.slack import Slack
from controlplane.slo.notices.trying import trial_notice
from controlplane.slo.notices.webhook import Webhook
from dataplane.plugins import PluginError


def _plan(folder: Path, name: str, kind: str) -> NotifierPlan:
    file = folder / f"{name}.url"
    file.write_text("https://example.com/hook\n")
    return parse_plan(f"{name}={kind}:{file}")


def test_both_kinds_are_made_by_name(tmp_path: Path) -> None:
    plans = (_plan(tmp_path, "oncall", "slack"), _plan(tmp_path, "pager", "webhook"))
    made = create_notifiers(plans)
    assert [(name, type(each)) for name, each in made.items()] == [
        ("oncall", Slack),
        ("pager", Webhook),
    ]


def test_a_kind_that_nobody_makes_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"notifier oncall: .*pigeon.*webhook, slack"):
        create_notifiers((_plan(tmp_path, "oncall", "pigeon"),))


def test_a_plugin_that_makes_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="makes no notifier"):
        create_notifiers((_plan(tmp_path, "oncall", "local"),))


def test_two_of_one_name_are_refused(tmp_path: Path) -> None:
    plan = _plan(tmp_path, "oncall", "slack")
    with pytest.raises(ValueError, match="two notifiers are called oncall"):
        create_notifiers((plan, plan))


@pytest.mark.parametrize("text", ["", "oncall", "oncall=slack", "On Call=slack:x", "a=b:"])
def test_another_form_is_refused_with_the_right_one(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=KIND:FILE"):
        parse_plan(text)


_PIGEON = """
from controlplane.hooks import hookimpl


class Pigeon:
    def notify(self, notice):
        return f"it flew for {notice.deployment}"


@hookimpl
def pilothouse_create_notifier(kind, file):
    return Pigeon() if kind == "pigeon_post" else None
"""


def test_a_plugin_makes_a_kind_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "pigeon_post.py").write_text(_PIGEON)
    info = tmp_path / "pigeon_post-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: pigeon_post\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pilothouse.controlplane]\npigeon_post = pigeon_post\n")
    made = create_notifiers((_plan(tmp_path, "oncall", "pigeon_post"),))
    assert made["oncall"].notify(trial_notice("ann", "", 0)) == "it flew for None"
