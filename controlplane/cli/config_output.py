"""Config documents on a terminal."""

from collections.abc import Iterable, Sequence
from typing import Any

from controlplane.cli.answers import ChangeAnswer, DeploymentAnswer, RevisionAnswer
from controlplane.cli.terminal import indented, instant, printable, printable_lines, table
from controlplane.specs.yaml_writer import write_yaml


def documents_as_yaml(documents: Iterable[dict[str, Any]]) -> str:
    """Documents that can be applied again as they stand."""
    return "---\n".join(as_yaml(document) for document in documents)


def as_yaml(document: dict[str, Any]) -> str:
    """One document; what a terminal would obey is escaped, so that it still reads back the same."""
    text = write_yaml(document)
    return text if printable_lines(text) == text else write_yaml(document, allow_unicode=False)


def revision_table(revisions: Sequence[RevisionAnswer], *, is_wide: bool = False) -> str:
    """One line for each document."""
    if not revisions:
        return "there are no documents; pilothouse apply -f makes some"
    head = ["KIND", "NAME", "REVISION", "CREATED", "AUTHOR", "SUMMARY"]
    rows = [head + (["DIGEST", "REASON"] if is_wide else [])]
    for each in revisions:
        row = [
            each.kind,
            each.name,
            str(each.number),
            instant(each.created_at_unix_ns),
            each.author,
            _summary(each),
        ]
        rows.append(row + ([each.digest[:12], each.reason or "-"] if is_wide else []))
    return table(rows)


def history_table(history: Sequence[RevisionAnswer]) -> str:
    """One line for each revision of one document, the newest first."""
    rows = [("REVISION", "CREATED", "DIGEST", "AUTHOR", "REASON")]
    rows += [
        (
            each.revision,
            instant(each.created_at_unix_ns),
            each.digest[:12],
            each.author,
            each.reason or "-",
        )
        for each in history
    ]
    return table(rows)


def describe_revision(revision: RevisionAnswer) -> str:
    """What one document says, and who made it why."""
    facts = [
        ("Kind:", revision.kind),
        ("Revision:", revision.revision),
        ("Digest:", f"sha256:{revision.digest}"),
        ("Created:", f"{instant(revision.created_at_unix_ns)} by {revision.author}"),
        ("Reason:", revision.reason or "(none given)"),
    ]
    if revision.deployment:
        facts += _deployment_facts(revision.deployment)
    return f"{table(facts)}\nDocument:\n{indented(as_yaml(revision.document))}"


def describe_changes(changes: Sequence[ChangeAnswer]) -> str:
    """What was desired of a deployment since when."""
    rows = [("GENERATION", "SINCE", "MODEL", "ENGINE", "POLICY", "CONTRACT", "AUTHOR")]
    for change in changes:
        desired = change.desired
        rows.append(
            (
                str(change.generation),
                instant(change.at_unix_ns),
                desired.model,
                desired.engine_config,
                desired.policy,
                desired.contract or "-",
                change.author,
            )
        )
    return f"Changes of what is desired:\n{indented(table(rows))}"


def describe_difference(before: RevisionAnswer, after: RevisionAnswer) -> str:
    """What differs between two revisions, place by place."""
    from controlplane.specs.diff import diff_documents

    changes = diff_documents(before.document, after.document)
    lines = [printable(str(change)) for change in changes] or ["the same"]
    return f"From {before.revision} to {after.revision}:\n{indented(chr(10).join(lines))}"


def _deployment_facts(deployment: DeploymentAnswer) -> list[tuple[str, str]]:
    desired = deployment.desired
    observed, generation = deployment.observed_generation, deployment.generation
    progress = "brought about" if observed == generation else f"still at {observed}"
    return [
        ("Model:", desired.model),
        ("Engine:", desired.engine_config),
        ("Policy:", desired.policy),
        ("Contract:", desired.contract or "(none)"),
        ("Replicas:", f"{deployment.replicas} wanted, by launcher {deployment.launcher}"),
        ("Generation:", f"{generation} ({progress})"),
    ]


def _summary(revision: RevisionAnswer) -> str:
    spec, deployment = revision.spec, revision.deployment
    if deployment:
        desired = deployment.desired
        return f"{deployment.replicas} x {desired.model} on {desired.engine_config}"
    match revision.kind:
        case "Model":
            artifact = spec.get("artifact", {})
            return str(artifact.get("url") or artifact.get("path") or artifact.get("file"))
        case "EngineConfig":
            return str(spec.get("engine", ""))
        case "SLOContract":
            return ", ".join(spec.get("classes", ()))
        case "AdmissionPolicy":
            return ", ".join(each["name"] for each in spec.get("classes", ()))
        case "Tenant":
            return str(spec.get("tier", ""))
    return ""
