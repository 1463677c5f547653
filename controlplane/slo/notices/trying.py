"""The notice that asks whether notices arrive."""

from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_windows import Severity
from controlplane.slo.notices.notice import Notice, NoticeKind

TEST_ALERT = "PilothouseTestAlert"


def trial_notice(by: str, console_url: str, now_unix_ns: int) -> Notice:
    """Marked as what it is, in the kind of the notice, the name of its alert, and its words."""
    alert = Alert(
        subject=AlertSubject(name=TEST_ALERT, severity=Severity.TICKET),
        source=AlertSource.CONTROL_PLANE,
        summary="This is a test, and nothing is wrong",
        description=f"{by} asked whether alerts arrive here.",
        started_at_unix_ns=now_unix_ns,
    )
    return Notice(
        kind=NoticeKind.TEST,
        deployment=None,
        at_unix_ns=now_unix_ns,
        firing=(alert,),
        console_url=console_url,
    )
