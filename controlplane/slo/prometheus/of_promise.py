"""What rules say of the promise that they were made of: labels, and the selector of its series."""

from controlplane.slo.promised import Promise
from dataplane import names


def promise_labels(promise: Promise) -> dict[str, str]:
    """All that an expression over its series has as well: promtool calls rules of one name the
    same that have the same labels. The revision is none of them, or each new one would end every
    series and alert and begin it anew."""
    return {
        names.LABEL_DEPLOYMENT: promise.deployment,
        names.LABEL_REQUEST_CLASS: promise.request_class,
        names.LABEL_OBJECTIVE: promise.objective,
    }


def promise_selector(promise: Promise) -> str:
    """Of its series alone."""
    pairs = (f'{label}="{value}"' for label, value in promise_labels(promise).items())
    return "{" + ",".join(pairs) + "}"


def team_labels(promise: Promise) -> dict[str, str]:
    """Whose its alerts are; none where the contract does not say."""
    team = promise.alerting.team
    return {} if team is None else {names.LABEL_TEAM: team}


def group_name(deployment: str, part: str | None = None) -> str:
    """Of one group of a deployment's rules. No name of a deployment holds a colon: those of `chat`
    would else be called like those of a deployment `chat-budget` in the same file, which Prometheus
    refuses whole."""
    name = f"pilothouse-slo-{deployment}"
    return name if part is None else f"{name}:{part}"
