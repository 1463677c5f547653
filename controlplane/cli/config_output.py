"""Config documents on a terminal."""

import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from ruamel.yaml import YAML


def documents_as_yaml(documents: Iterable[dict[str, Any]]) -> str:
    """Documents that can be applied again as they stand."""
    return "---\n".join(_as_yaml(document) for document in documents)


def revision_table(revisions: Sequence[dict[str, Any]]) -> str:
    """One line for each document."""
    rows = [("KIND", "NAME", "REVISION", "CREATED", "AUTHOR", "SUMMARY")]
    rows += [
        (
            revision["kind"],
            revision["name"],
            str(revision["number"]),
            _instant(revision["created_at_unix_ns"]),
            revision["author"],
            _summary(revision),
        )
        for revision in revisions
    ]
    return table(rows) if revisions else "there are no documents; pilothouse apply -f makes some"


def describe_revision(revision: dict[str, Any], history: Sequence[dict[str, Any]]) -> str:
    """Everything known of one document."""
    facts = [
        ("Kind:", revision["kind"]),
        ("Revision:", revision["revision"]),
        ("Digest:", f"sha256:{revision['digest']}"),
        ("Created:", f"{_instant(revision['created_at_unix_ns'])} by {revision['author']}"),
        ("Reason:", revision["reason"] or "(none given)"),
    ]
    deployment = revision.get("deployment")
    if deployment:
        facts += _deployment_facts(deployment)
    document = _indented(_as_yaml(revision["document"]))
    return f"{table(facts)}\nDocument:\n{document}Revisions:\n{_indented(_history(history))}"


def describe_deployment(
    replicas: Sequence[dict[str, Any]], changes: Sequence[dict[str, Any]]
) -> str:
    """What runs of a deployment, and what was desired since when."""
    running = _replicas(replicas) if replicas else "none"
    return (
        f"Replicas as last seen:\n{_indented(running)}"
        f"Changes of what is desired:\n{_indented(_changes(changes))}"
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _deployment_facts(deployment: dict[str, Any]) -> list[tuple[str, str]]:
    desired = deployment["desired"]
    observed, generation = deployment["observed_generation"], deployment["generation"]
    progress = "brought about" if observed == generation else f"still at {observed}"
    return [
        ("Model:", desired["model"]),
        ("Engine:", desired["engine_config"]),
        ("Policy:", desired["policy"]),
        ("Contract:", desired["contract"] or "(none)"),
        ("Replicas:", f"{deployment['replicas']} wanted, by launcher {deployment['launcher']}"),
        ("Generation:", f"{generation} ({progress})"),
    ]


def _history(history: Sequence[dict[str, Any]]) -> str:
    return table(
        [
            (
                each["revision"],
                _instant(each["created_at_unix_ns"]),
                each["digest"][:12],
                each["author"],
                each["reason"],
            )
            for each in history
        ]
    )


def _replicas(replicas: Sequence[dict[str, Any]]) -> str:
    rows = [("REPLICA", "STATE", "MODEL", "ADDRESS", "METRICS", "REASON")]
    rows += [
        (
            replica["replica_id"],
            replica["state"],
            replica["model_revision"],
            replica["address"] or "-",
            f"http://{replica['metrics_address']}/metrics" if replica["metrics_address"] else "-",
            replica["reason"],
        )
        for replica in replicas
    ]
    return table(rows)


def _changes(changes: Sequence[dict[str, Any]]) -> str:
    rows = [("GENERATION", "SINCE", "MODEL", "ENGINE", "POLICY", "CONTRACT", "AUTHOR")]
    for change in changes:
        desired = change["desired"]
        rows.append(
            (
                str(change["generation"]),
                _instant(change["at_unix_ns"]),
                desired["model"],
                desired["engine_config"],
                desired["policy"],
                desired["contract"] or "-",
                change["author"],
            )
        )
    return table(rows)


def _summary(revision: dict[str, Any]) -> str:
    spec, deployment = revision["document"]["spec"], revision.get("deployment")
    if deployment:
        desired = deployment["desired"]
        return f"{deployment['replicas']} x {desired['model']} on {desired['engine_config']}"
    match revision["kind"]:
        case "Model":
            artifact = spec["artifact"]
            return str(artifact.get("url") or artifact.get("path") or artifact.get("file"))
        case "EngineConfig":
            return str(spec["engine"])
        case "SLOContract":
            return ", ".join(spec["classes"])
        case "AdmissionPolicy":
            return ", ".join(each["name"] for each in spec["classes"])
        case "Tenant":
            return str(spec.get("tier", ""))
    return ""


def _as_yaml(document: dict[str, Any]) -> str:
    yaml = YAML()
    yaml.width = 100
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def _instant(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
