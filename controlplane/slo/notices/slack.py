"""Telling a channel of Slack, or of whatever takes the same incoming webhooks (Mattermost, Discord
with /slack at the end): a text with links in Slack's own markup."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controlplane.slo.alert import Alert
from controlplane.slo.alert_windows import Severity
from controlplane.slo.notices.address import read_address
from controlplane.slo.notices.notice import Notice, NoticeKind
from controlplane.slo.notices.posting import post_json

_MAX_ALERTS = 10
"""Of one message: a page of a phone."""
_MARKS = {
    NoticeKind.RESOLVED: ":white_check_mark:",
    NoticeKind.TEST: ":bell:",
}
_PAGE, _TICKET = ":rotating_light:", ":warning:"


class Slack:
    """As `Webhook`, in Slack's form."""

    def __init__(self, file: Path) -> None:
        """Raises ValueError for a file that holds no address."""
        read_address(file)
        self._file = file

    def notify(self, notice: Notice) -> str:
        """See `controlplane.hooks.Notifier`."""
        return post_json(read_address(self._file), slack_message(notice))


def slack_message(notice: Notice) -> dict[str, Any]:
    """What an incoming webhook takes."""
    return {"text": "\n".join(_lines(notice)), "unfurl_links": False}


def _lines(notice: Notice) -> Iterator[str]:
    has_page = any(each.subject.severity is Severity.PAGE for each in notice.firing)
    mark = _MARKS.get(notice.kind, _PAGE if has_page else _TICKET)
    yield f"{mark} *{_escaped(notice.headline)}*"
    for alert in notice.firing[:_MAX_ALERTS]:
        yield _line(alert)
    if len(notice.firing) > _MAX_ALERTS:
        yield f"and {len(notice.firing) - _MAX_ALERTS} more"
    if notice.num_held_back:
        yield f"_{notice.num_held_back} tickets of it are held back while the page fires._"
    for alert in notice.ended[:_MAX_ALERTS]:
        yield f"Ended: {_escaped(alert.summary)}{_grade(alert)}"
    if notice.console_url:
        yield f"<{_link(notice.console_url)}|Console>"


def _line(alert: Alert) -> str:
    links = [
        f"<{_link(url)}|{name}>"
        for name, url in (("Runbook", alert.runbook_url), ("Dashboard", alert.dashboard_url))
        if url
    ]
    told = f"• *{_escaped(alert.summary)}*{_grade(alert)}: {_escaped(alert.description)}"
    team = [] if alert.team is None else [f"Team: {_escaped(alert.team)}."]
    return " ".join((told, *team, *links))


def _grade(alert: Alert) -> str:
    return f" ({alert.subject.grade})" if alert.subject.grade else ""


def _escaped(text: str) -> str:
    """Slack's three characters: what stands in a name is no link and calls nobody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _link(url: str) -> str:
    return _escaped(url).replace("|", "%7C")
