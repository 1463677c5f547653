"""The control plane's own alerting: how it goes, and whether its messages arrive."""

from concurrent.futures import ThreadPoolExecutor

from fastapi import APIRouter, HTTPException, Request
from starlette.datastructures import State

from controlplane.api.alerting_views import (
    AlertingView,
    NotifierAnswer,
    NotifierView,
    TestedNotifiers,
)
from controlplane.api.authentication import principal_of
from controlplane.hooks import NotifyError
from controlplane.slo.alerting_worker import AlertingWorker
from controlplane.slo.notices.notice import Notice
from controlplane.slo.notices.teller import Teller
from controlplane.slo.notices.trying import trial_notice
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1/slo", tags=["slo"])


@router.get("/alerting")
def get_alerting(request: Request) -> AlertingView:
    """When objectives were last evaluated here, and how each notifier fares."""
    return view_alerting(request.app.state)


def view_alerting(state: State) -> AlertingView:
    """As of now."""
    worker: AlertingWorker = state.alerting
    last = worker.last
    return AlertingView(
        as_of_unix_ns=wall_clock(),
        is_on=worker.settings.is_on,
        evaluate_seconds=worker.settings.evaluate_seconds,
        evaluated_at_unix_ns=None if last is None else last.at_unix_ns,
        pass_seconds=worker.pass_seconds,
        num_promises=None if last is None else last.num_promises,
        num_failed_passes=worker.num_failed_passes,
        error=worker.error,
        num_firing=None if last is None else len(last.alerts.firing),
        notifiers=[_view(teller) for teller in worker.tellers],
    )


@router.post("/test-alert")
def send_test_alert(request: Request) -> TestedNotifiers:
    """Send a marked test through every notifier at once, past silences and what was told before,
    and say what each answered. 409 where there is none."""
    worker: AlertingWorker = request.app.state.alerting
    if not worker.tellers:
        raise HTTPException(
            409,
            "no notifier is configured: start the control plane with --notify NAME=KIND:FILE, "
            "or have Alertmanager tell people",
        )
    by = principal_of(request).name
    notice = trial_notice(by, worker.settings.console_url, wall_clock())
    with ThreadPoolExecutor(max_workers=len(worker.tellers)) as pool:
        answers = pool.map(lambda teller: _try(teller, notice), worker.tellers)
    return TestedNotifiers(answers=list(answers))


def _try(teller: Teller, notice: Notice) -> NotifierAnswer:
    try:
        said, has_arrived = teller.test(notice), True
    except NotifyError as error:
        said, has_arrived = str(error), False
    plan = teller.plan
    return NotifierAnswer(name=plan.name, kind=plan.kind, has_arrived=has_arrived, said=said)


def _view(teller: Teller) -> NotifierView:
    plan, state = teller.plan, teller.state
    return NotifierView(
        name=plan.name,
        kind=plan.kind,
        file=str(plan.file),
        num_told=state.num_told,
        num_failed=state.num_failed,
        num_due=state.num_due,
        told_at_unix_ns=state.told_at_unix_ns,
        error=state.error,
    )
