"""What `pilothouse describe` shows, as data for programs: the API's own answers, put together."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from controlplane.cli.answers import GatewaysAnswer, HoldsAnswer, ReplicasAnswer, RevisionAnswer
from controlplane.cli.client import convert_answer, get_json
from controlplane.cli.documents import get_history, get_revision
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.failures import CallError

if TYPE_CHECKING:
    from controlplane.specs.kind import Kind

_MAX_HISTORY = 1000


def document_facts(url: str, kind: "Kind", name: str) -> dict[str, Any]:
    """One document, every revision of it, and what it changed; a deployment with what runs."""
    from controlplane.specs.kind import Kind

    revision, answer = get_revision(url, kind, name)
    history, answers = get_history(url, kind, name)
    earlier = [each for each in history if each.number < revision.number]
    facts = {
        "revision": answer,
        "revisions": answers,
        "differences": differences(earlier[0], revision) if earlier else [],
    }
    if kind is Kind.DEPLOYMENT:
        deployments = get_json(url, "/api/v1/deployments")
        held = convert_answer(url, deployments, HoldsAnswer).deployments
        path = f"/api/v1/deployments/{quote(revision.name, safe='')}/changes"
        replicas = get_json(url, "/api/v1/replicas", deployment=revision.name, limit=0)
        facts |= {
            "hold": next((each.hold for each in held if each.name == revision.name), None),
            "replicas": replicas["replicas"],
            "changes": get_json(url, path),
        }
    return facts


def replica_facts(url: str, name: str) -> dict[str, Any]:
    """One replica, None where it has ended, and what happened to it, the newest first."""
    answer = get_json(url, "/api/v1/replicas", limit=_MAX_HISTORY)
    found = convert_answer(url, answer, ReplicasAnswer)
    known = {each.replica_id for each in found.replicas}
    known |= {each.replica_id for each in found.history}
    replica_id = choose("replica", name, known)
    living = [each for each in answer["replicas"] if each["replica_id"] == replica_id]
    history = [each for each in answer["history"] if each["replica_id"] == replica_id]
    return {"replica": living[0] if living else None, "history": history}


def gateway_facts(url: str, name: str) -> list[Any]:
    """The processes of one gateway: two while one hands over to the next."""
    answer = get_json(url, "/api/v1/gateways")
    found = convert_answer(url, answer, GatewaysAnswer).gateways
    chosen = choose("gateway", name, {each.name for each in found})
    return [each for each in answer["gateways"] if each["name"] == chosen]


def differences(before: RevisionAnswer, after: RevisionAnswer) -> list[dict[str, Any]]:
    """Place by place; see controlplane.specs.diff."""
    from controlplane.specs.diff import diff_documents

    return [asdict(each) for each in diff_documents(before.document, after.document)]


def choose(noun: str, name: str, known: set[str]) -> str:
    """The one that `name` is or begins. Raises CallError."""
    matches = [name] if name in known else sorted(each for each in known if each.startswith(name))
    if len(matches) == 1:
        return matches[0]
    if matches:
        several = ", ".join(matches[:5])
        raise CallError(f"{name!r} begins several: {several}; write more of it", ExitCode.FAILED)
    there = f"There are {', '.join(sorted(known)[:10])}" if known else f"No {noun} was seen yet"
    raise CallError(f"there is no {noun} {name!r}. {there}", ExitCode.NOT_FOUND)
