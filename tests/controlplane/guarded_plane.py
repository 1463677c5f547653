"""A whole control plane with authentication on, and ways to call it as somebody."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.access.passwords import hash_password
from controlplane.api.app import create_app
from controlplane.open_state import OpenState
from controlplane.operator.settings import OperatorSettings
from controlplane.store.access_keys import add_key
from controlplane.store.connection import DatabaseKind
from controlplane.store.users import add_user
from dataplane.access import AuthMode, Role
from tests.controlplane.config_documents import SERVICE
from tests.databases import create_sqlite

PASSWORD = "correct horse battery"
BASE_URL = "http://pilothouse.example"


@dataclass
class GuardedPlane:
    """The application, and keys by role."""

    app: FastAPI
    http: TestClient

    def key(self, role: Role, tenant: str | None = None, name: str | None = None) -> str:
        """A new key's text."""
        with self.app.state.config_db.session() as session:
            return add_key(
                session,
                name=name or f"{role}-{tenant or 'all'}",
                role=role,
                tenant=tenant,
                expires_at_unix_ns=None,
                actor="test",
            ).text

    def user(self, name: str, role: Role, tenant: str | None = None) -> None:
        """Somebody whose password is PASSWORD."""
        with self.app.state.config_db.session() as session:
            add_user(
                session, name=name, role=role, tenant=tenant,
                password_hash=hash_password(PASSWORD), actor="test",
            )  # fmt: skip

    def bearing(self, key: str) -> TestClient:
        """A caller that shows `key`."""
        return self.caller(authorization=f"Bearer {key}")

    def browser(self) -> TestClient:
        """A caller that asks for pages and keeps cookies."""
        return self.caller(accept="text/html")

    def caller(self, **headers: str) -> TestClient:
        """A caller with headers of its own."""
        return TestClient(self.app, base_url=BASE_URL, headers=headers, follow_redirects=False)


@contextmanager
def guarded_plane(folder: Path) -> Iterator[GuardedPlane]:
    """Until the block ends."""
    urls = {kind: create_sqlite(folder / f"{kind}.db", kind) for kind in DatabaseKind}
    opened = OpenState.open(
        folder, urls[DatabaseKind.CONFIG], urls[DatabaseKind.REQUESTS], OperatorSettings()
    )
    app = create_app(opened, AuthMode.REQUIRED, folder)
    with TestClient(app, base_url=BASE_URL) as http:
        yield GuardedPlane(app, http)


@contextmanager
def guarded_service(folder: Path) -> Iterator[GuardedPlane]:
    """With a deployment under a contract: SERVICE."""
    with guarded_plane(folder) as plane:
        files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(SERVICE)]
        admin = plane.bearing(plane.key(Role.ADMIN, name="root"))
        answer = admin.post("/api/v1/apply", json={"files": files, "reason": "for the test"})
        assert answer.status_code == 200, answer.text
        yield plane


def log_in(browser: TestClient, name: str) -> str:
    """As a user; returns the token that forms must carry."""
    answer = browser.post("/login", data={"name": name, "password": PASSWORD})
    assert answer.status_code == 303, answer.text
    _, _, rest = browser.get("/requests").text.partition('name="csrf_token" value="')
    token, _, _ = rest.partition('"')
    assert token
    return token
