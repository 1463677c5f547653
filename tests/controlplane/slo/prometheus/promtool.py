"""Prometheus' own checker of rules, asked with series that are made up."""

import json
import re
import shutil
import subprocess
import sys
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

SCRAPE_SECONDS = 15
LINKS = Links(console_url="http://console:8080")


def find_promtool() -> str:
    """Beside the interpreter, where the set-up of the tests puts it, or on the PATH."""
    path = str(Path(sys.executable).parent)
    found = shutil.which("promtool", path=path) or shutil.which("promtool")
    assert found is not None, "run `make install-test`: it fetches promtool"
    return found


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
    grade = "count by (grade, severity) (ALERTS{alertstate='firing'})"
    document: dict[str, Any] = {
        "rule_files": list(files),
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": f"{SCRAPE_SECONDS}s",
                "input_series": [
                    {"series": name, "values": values} for name, values in series.items()
                ],
                "promql_expr_test": [
                    *(_asked(each.expr, each.at, each.samples) for each in expected),
                    *(
                        _asked(
                            grade,
                            each.at,
                            {
                                f'{{grade="{name}",severity="{name.split("_")[0]}"}}': 1
                                for name in each.grades
                            },
                        )
                        for each in firing
                    ),
                ],
            }
        ],
    }
    (folder / "test.yml").write_text(json.dumps(document))
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
    document = {
        "rule_files": list(files),
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": f"{SCRAPE_SECONDS}s",
                "input_series": [
                    {"series": name, "values": values} for name, values in series.items()
                ],
                "promql_expr_test": [_asked(each.expr, each.at, _NEVER) for each in asked],
            }
        ],
    }
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


def _asked(expr: str, at: str, samples: Mapping[str, float]) -> dict[str, Any]:
    return {
        "expr": expr,
        "eval_time": at,
        "exp_samples": [{"labels": labels, "value": value} for labels, value in samples.items()],
    }


def _call(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [find_promtool(), *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def _run(folder: Path, *arguments: str) -> None:
    done = _call(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
