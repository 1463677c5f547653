"""Carrying the config elsewhere: out of one control plane, and into an empty one."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel

from controlplane.access.principal import actor_of
from controlplane.api.authentication import principal_of
from controlplane.api.body import read_body
from controlplane.api.config import announce_change
from controlplane.api.free_text import FreeText
from controlplane.store.config_export import DamagedConfigError, export_config
from controlplane.store.config_import import (
    FilledDatabaseError,
    RefusedExportError,
    decode_export,
    import_config,
)
from controlplane.store.database import Database

router = APIRouter(prefix="/api/v1", tags=["config"])

MAX_BODY_BYTES = 256 * 2**20


class ImportReport(BaseModel):
    """What was taken in."""

    num_revisions: int
    digest: str
    """Over every revision, as the export tells it."""


@router.get("/export", responses={409: {"description": "A stored document is damaged."}})
def get_export(request: Request) -> Response:
    """Every revision of every document with number, digest, author, reason and time, and where
    deployments stand. Keys, users, the audit, overrides, replicas and request data are not in it.
    """
    database: Database = request.app.state.config_db
    try:
        with database.reading() as session:
            export = export_config(session)
    except DamagedConfigError as error:
        raise HTTPException(409, str(error)) from error
    return Response(msgspec.json.encode(export), media_type="application/json")


@router.post(
    "/import",
    max_body_size=MAX_BODY_BYTES,
    responses={409: {"description": "There is config already; nothing was stored."}},
)
async def post_import(
    request: Request,
    author: Annotated[FreeText, Query(min_length=1, max_length=128)] = "unknown",
) -> ImportReport:
    """Take an export in, with its numbers and digests, whole or not at all: into an empty config
    database alone. 422 says what of it is not as it was exported."""
    body = await read_body(request, MAX_BODY_BYTES, "restore a backup with `pilothouse db restore`")
    return await run_in_threadpool(_take, request, body, author)


def _take(request: Request, body: bytes, author: str) -> ImportReport:
    database: Database = request.app.state.config_db
    try:
        export = decode_export(body)
        with database.session() as session:
            import_config(session, export, actor=actor_of(principal_of(request), author))
    except RefusedExportError as error:
        raise HTTPException(422, f"nothing was stored; {error}") from error
    except FilledDatabaseError as error:
        raise HTTPException(409, f"nothing was stored; {error}") from error
    if export.revisions:
        announce_change(request)
    return ImportReport(num_revisions=len(export.revisions), digest=export.digest)
