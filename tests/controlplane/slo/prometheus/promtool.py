"""Prometheus' own checker of rules, asked with series that are made up."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.slo.prometheus.burning import burning_groups
from controlplane.slo.prometheus.counting import counting_groups
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.rules import render
from controlplane.slo.promised import promises_of
from controlplane.specs.contract import SLOContractSpec
from tests.programs import find_program

SCRAPE_SECONDS = 15
LINKS = Links(console_url="http://console:8080")


def contract(
    objectives: Sequence[Mapping[str, str]],
    window: str = "30d",
    alerting: Mapping[str, Any] | None = None,
) -> SLOContractSpec:
    """One class, `interactive`, at the boundary of the server."""
    return SLOContractSpec.model_validate_json(
        json.dumps(
            {
                "boundary": "server",
                "window": window,
                "classes": {"interactive": {"objectives": list(objectives)}},
                "alerting": alerting,
            }
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What an expression gives at a moment: values by their labels, in PromQL's own form."""

    at: str
    expr: str
    samples: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """Which grades of a burning budget fire at a moment."""

    at: str
    grades: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An expression whose answer is not known."""

    expr: str
    at: str


_NEVER = {'{nobody="gives"}': 1.0}
"""Where promtool got this it would say nothing."""
_GRADES = "count by (grade, severity) (ALERTS{alertstate='firing'})"


def write_rules(folder: Path, spec: SLOContractSpec, revision: str = "chat@7") -> list[str]:
    """Those that count, and those of the deployment `chat`. Returns the names of the files."""
    burning = burning_groups(list(promises_of("chat", revision, spec)), LINKS)
    for name, groups in (("counts.yml", counting_groups()), ("chat.yml", burning.groups)):
        (folder / name).write_text(render(groups, ["Made for a test."]))
    return ["counts.yml", "chat.yml"]


def check(folder: Path, files: Sequence[str]) -> None:
    """`promtool check rules`."""
    _run(folder, "check", "rules", *files)


def try_rules(
    folder: Path,
    files: Sequence[str],
    series: Mapping[str, str],
    *,
    expected: Sequence[Expected] = (),
    firing: Sequence[Firing] = (),
) -> None:
    """`promtool test rules` over series in its own notation, scraped every 15 s."""
    asked = [_asked(each.expr, each.at, each.samples) for each in expected]
    asked += [_asked(_GRADES, each.at, _graded(each.grades)) for each in firing]
    (folder / "test.yml").write_text(json.dumps(_document(files, series, asked)))
    _run(folder, "test", "rules", "test.yml")


def firing_alerts(
    folder: Path, files: Sequence[str], series: Mapping[str, str], at: str
) -> set[str]:
    """Names of the alerts that fire at a moment."""
    found = told(
        folder, files, series, expr="count by (alertname) (ALERTS{alertstate='firing'})", at=at
    )
    return {name for labels in found for name in re.findall(r'alertname="(\w+)"', labels)}


def told(
    folder: Path, files: Sequence[str], series: Mapping[str, str], *, expr: str, at: str
) -> dict[str, float]:
    """What `expr` gives at a moment, by labels."""
    [answer] = answers(folder, files, series, [Asked(expr=expr, at=at)])
    return answer


def answers(
    folder: Path, files: Sequence[str], series: Mapping[str, str], asked: Sequence[Asked]
) -> list[dict[str, float]]:
    """What expressions give, each by labels: from what promtool says that it got in place of
    something that no rule gives."""
    document = _document(files, series, [_asked(each.expr, each.at, _NEVER) for each in asked])
    (folder / "asked.yml").write_text(json.dumps(document))
    done = _call(folder, "test", "rules", "asked.yml")
    got = (done.stdout + done.stderr).split("got:")[1:]
    assert len(got) == len(asked), done.stdout + done.stderr
    return [
        {
            labels: float(value)
            for labels, value in re.findall(r"(\{[^{}]*\}) ([-+.0-9E]+|\+Inf|NaN)", each)
        }
        for each in (part.partition("expr:")[0] for part in got)
    ]


def _document(
    files: Sequence[str], series: Mapping[str, str], asked: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """As promtool reads it."""
    return {
        "rule_files": list(files),
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": f"{SCRAPE_SECONDS}s",
                "input_series": [
                    {"series": name, "values": values} for name, values in series.items()
                ],
                "promql_expr_test": list(asked),
            }
        ],
    }


def _graded(grades: Sequence[str]) -> dict[str, float]:
    return {f'{{grade="{name}",severity="{name.split("_")[0]}"}}': 1 for name in grades}


def _asked(expr: str, at: str, samples: Mapping[str, float]) -> dict[str, Any]:
    return {
        "expr": expr,
        "eval_time": at,
        "exp_samples": [{"labels": labels, "value": value} for labels, value in samples.items()],
    }


def _call(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [find_program("promtool"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def _run(folder: Path, *arguments: str) -> None:
    done = _call(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
