"""Incidents from the command line, against a real control plane."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.open_state import OpenState
from controlplane.store.incident import FoundFinding
from controlplane.store.incidents import open_incident
from dataplane.clock import wall_clock
from tests.controlplane.config_documents import SERVICE
from tests.controlplane.control_plane_server import serve_control_plane
from tests.controlplane.slo.told_alerts import Told, burn, static

_FOUND = FoundFinding(
    rule_id="cache-thrash",
    mechanism="cache.thrash",
    confidence="certain",
    finding={
        "mechanism": "cache.thrash",
        "evidence": ["vllm:num_preemptions_total 371 -> 603 in 60 s"],
        "against": ["\x1b[2Jnot queue.overload"],
        "needs": [],
        "remedy": "Admit fewer at once.",
        "hides": "a leak of blocks",
    },
)


@pytest.fixture
def told(incident_id: str, opened: list[OpenState]) -> Told:
    return Told(opened[0].config_db)


@pytest.fixture
def opened() -> list[OpenState]:
    """The state of the control plane that is asked."""
    return []


@pytest.fixture(autouse=True)
def incident_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[OpenState]
) -> Iterator[str]:
    with serve_control_plane(tmp_path) as (url, state):
        opened.append(state)
        files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(SERVICE)]
        applied = httpx.post(
            f"{url}/api/v1/apply", json={"files": files, "author": "ann", "reason": "fewer seats"}
        )
        assert applied.status_code == 200, applied.text
        monkeypatch.setenv("PILOTHOUSE_URL", url)
        with state.config_db.session() as session:
            now = wall_clock() + 90 * 10**9
            made = open_incident(session, "chat", [_FOUND], None, now)
        yield made.incident_id


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["incidents", *arguments])


def test_what_is_open_is_listed_and_what_is_not_is_not(incident_id: str) -> None:
    listed = run()
    assert (listed.exit_code, incident_id in listed.output) == (0, True)
    assert "cache.thrash" in listed.output
    assert run("--state", "resolved").output == "no incident is resolved\n"
    assert run("--deployment", "other").output == "no incident is open\n"
    assert json.loads(run("-o", "json").output)["incidents"][0]["incident_id"] == incident_id


def test_whole_it_says_why_what_was_changed_before_and_what_to_do(incident_id: str) -> None:
    shown = run(incident_id).output
    assert "371 -> 603 in 60 s" in shown
    assert "Admit fewer at once." in shown
    assert "a leak of blocks" in shown
    assert "fewer seats" in shown
    assert "which makes none of it a cause" in shown
    assert "pilothouse runbook cache-thrash" in shown
    assert "\x1b" not in shown


def test_what_alerts_tell_is_listed_and_shown_with_its_figures_and_who_told_it(
    told: Told,
) -> None:
    now = wall_clock()
    seconds = now // 10**9
    told.book.take([static(since=seconds - 60), burn(since=seconds - 60, deployment="mail")], now)
    lines = {line.split()[1]: line for line in run().output.splitlines()}
    assert "A gateway does not answer" in lines["-"]
    assert "1 (page)" in lines["mail"]
    [mail] = [each for each in told.incidents() if each.deployment == "mail"]
    shown = run(mail.incident_id).output
    assert "page PilothouseBudgetBurn, page_quick, fires" in shown
    assert "20 % missed" in shown
    assert "by contract chat@7" in shown
    assert "says alertmanager, last" in shown
    assert "runbook: pilothouse runbook budget-burn" in shown
    assert "Budget of interactive ttft" in shown


def test_words_are_kept_in_its_timeline_and_resolving_ends_it(incident_id: str) -> None:
    assert "local looks after it" in run(incident_id, "--acknowledge", "trying 96").output
    assert "note by local: it is the evals" in run(incident_id, "--note", "it is the evals").output
    assert "resolved" in run(incident_id, "--resolve", "gone").output.splitlines()[0]
    assert run().output == "no incident is open\n"
    again = run(incident_id, "--resolve", "gone")
    assert again.exit_code != 0
    assert "resolved already" in again.output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--resolve", "x"], "needs the ID"),
        (["ID", "--state", "open"], "leave out ID"),
        (["ID", "--note", "x", "--resolve", "y"], "one of"),
    ],
)
def test_what_contradicts_itself_is_refused(words: list[str], why: str) -> None:
    refused = run(*words)
    assert (refused.exit_code, why in refused.output) == (ExitCode.USAGE, True)


def test_an_unknown_one_is_said_to_be_so() -> None:
    unknown = run("none")
    assert unknown.exit_code != 0
    assert "no incident 'none'" in unknown.output


def test_ids_of_open_ones_complete_themselves(incident_id: str) -> None:
    completer = ShellComplete(main, {}, "pilothouse", "_PILOTHOUSE_COMPLETE")
    offered = [each.value for each in completer.get_completions(["incidents"], "")]
    assert offered == [incident_id]


def test_the_later_lines_of_a_note_look_like_no_entry_of_their_own(incident_id: str) -> None:
    run(incident_id, "--note", "seen\n  2026-11-30 19:00:00Z  resolved by admin: not true")
    timeline = run(incident_id).output.partition("Timeline\n")[2].splitlines()
    assert [line.strip()[:1] for line in timeline if "not true" in line] == ["|"]
    assert sum(" by " in line and not line.strip().startswith("|") for line in timeline) == 2
