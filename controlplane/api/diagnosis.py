"""What the rules last said of each deployment: mechanism, evidence, what is lacking, its age."""

from fastapi import APIRouter, HTTPException, Request
from starlette.datastructures import State

from controlplane.api.deployments import DeploymentNotFoundError
from controlplane.api.diagnosis_views import DiagnosisList, DiagnosisView, FailedRule
from controlplane.diagnosis.always_on.diagnoses import LastDiagnosis
from controlplane.diagnosis.always_on.worker import DiagnosisWorker
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.store.database import Database
from controlplane.store.deployments import find_deployment
from controlplane.store.incident import IncidentState, StoredIncident
from controlplane.store.incident_lists import list_incidents
from dataplane.clock import wall_clock

router = APIRouter(prefix="/api/v1", tags=["incidents"])

_MEANINGS = {each.value: each.meaning for each in Mechanism}
_OFF = "diagnosis is off: start the control plane with --diagnosis on"
_NOT_YET = (
    "it was not looked at yet: the first look is a few seconds after the start, or some minutes "
    "where there are more than a hundred replicas, which take turns"
)
_NOTHING_RUNS = "nothing of it runs, so there is nothing to look at"


@router.get("/diagnosis")
def get_diagnoses(request: Request) -> DiagnosisList:
    """The last diagnosis of every deployment of which something runs."""
    state, now = request.app.state, wall_clock()
    worker: DiagnosisWorker = state.diagnosis
    open_by_deployment = _open_incidents(state.config_db)
    return DiagnosisList(
        as_of_unix_ns=now,
        is_on=worker.settings.is_on,
        error=worker.error,
        diagnoses=[
            _view(worker, each.deployment, each, open_by_deployment.get(each.deployment), now)
            for each in worker.diagnoses.all()
        ],
    )


@router.get(
    "/deployments/{name}/diagnosis",
    responses={404: {"description": "There is no deployment of that name."}},
)
def get_diagnosis(name: str, request: Request) -> DiagnosisView:
    """The last diagnosis of one deployment, with its age; or why there is none."""
    try:
        return read_diagnosis(request.app.state, name, wall_clock())
    except DeploymentNotFoundError as error:
        raise HTTPException(404, str(error)) from error


def read_diagnosis(state: State, name: str, now_unix_ns: int) -> DiagnosisView:
    """Raises DeploymentNotFoundError."""
    database: Database = state.config_db
    worker: DiagnosisWorker = state.diagnosis
    with database.reading() as session:
        if find_deployment(session, name) is None:
            raise DeploymentNotFoundError(f"there is no deployment {name[:128]!r}")
        found = list_incidents(session, deployment=name, state=IncidentState.OPEN, limit=1)
    runs = any(each.deployment == name for each in state.observed.replicas())
    last = worker.diagnoses.find(name)
    why = _NOT_YET if runs else _NOTHING_RUNS
    return _view(worker, name, last, found[0] if found else None, now_unix_ns, why)


def _open_incidents(database: Database) -> dict[str, StoredIncident]:
    """The newest of each deployment."""
    with database.reading() as session:
        found = list_incidents(session, state=IncidentState.OPEN, limit=None)
    return {each.deployment: each for each in reversed(found) if each.deployment is not None}


def _view(
    worker: DiagnosisWorker,
    name: str,
    last: LastDiagnosis | None,
    incident: StoredIncident | None,
    now_unix_ns: int,
    why_none: str = _NOT_YET,
) -> DiagnosisView:
    faults = {} if worker.guard is None else {f.rule_id: f.error for f in worker.guard.faults}
    if not worker.settings.is_on:
        why_none = _OFF
    elif (failed := _failure(worker, name)) is not None:
        why_none = f"the last look failed: {failed}"
    return DiagnosisView(
        as_of_unix_ns=now_unix_ns,
        deployment=name,
        is_on=worker.settings.is_on,
        looked_at_unix_ns=last.at_unix_ns if last else None,
        age_seconds=max(0.0, (now_unix_ns - last.at_unix_ns) / 1e9) if last else None,
        mechanism=last.mechanism if last else None,
        meaning=_MEANINGS.get(last.mechanism, "") if last else "",
        confidence=last.confidence if last else None,
        diagnosis=last.diagnosis if last else None,
        why_none=None if last else why_none,
        num_replicas=last.num_replicas if last else 0,
        num_telling=last.num_telling if last else 0,
        silent=last.silent if last else {},
        failed_rules=[
            FailedRule(rule_id=rule_id, error=faults.get(rule_id, "it is not known any more"))
            for rule_id in (last.failed_rules if last else ())
        ],
        incident_id=incident.incident_id if incident else None,
    )


def _failure(worker: DiagnosisWorker, name: str) -> str | None:
    watcher = worker.watcher
    return worker.error or (watcher.failed_looks.get(name) if watcher is not None else None)
