"""A server that takes dashboards as Grafana's HTTP API is documented to: folders, dashboards/db.

No Grafana runs here. What this checks is what the documentation says of a request (Grafana 11,
"Dashboard API" and "Folder API"): keys, types, the folder that must be there, versions, roles; and
it answers with the statuses and bodies that stand there.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

EDITOR, VIEWER = "editor-token", "viewer-token"
_KEYS = {"dashboard", "folderUid", "message", "overwrite"}
_UID = re.compile(r"[a-zA-Z0-9\-_]{1,40}")

Answer = tuple[int, dict[str, Any]]


@dataclass(slots=True)
class GrafanaState:
    """What it keeps."""

    prefix: str = ""
    folders: dict[str, str] = field(default_factory=dict)
    num_folders_made: int = 0
    dashboards: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    folder_of: dict[str, str] = field(default_factory=dict)
    provisioned: set[str] = field(default_factory=set)
    url: str = ""

    def answer(self, method: str, path: str, token: str, body: Any) -> Answer:
        """Status and JSON."""
        if token not in (EDITOR, VIEWER):
            return 401, {"message": "Invalid API key", "messageId": "api-key.invalid"}
        match method, path.removeprefix(f"{self.prefix}/api").split("/")[1:]:
            case "GET", ["folders", uid]:
                if uid in self.folders:
                    return 200, {"uid": uid, "title": self.folders[uid]}
                return 404, {"message": "folder not found", "status": "not-found"}
            case "POST", _ if token == VIEWER:
                return 403, {"message": "You'll need additional permissions", "title": "Access"}
            case "POST", ["folders"]:
                self.num_folders_made += 1
                self.folders[body["uid"]] = body["title"]
                return 200, {"uid": body["uid"], "title": body["title"]}
            case "POST", ["dashboards", "db"]:
                return self._take(body)
        return 404, {"message": "Not found"}

    def _take(self, body: dict[str, Any]) -> Answer:
        dashboard = body.get("dashboard")
        if not set(body) <= _KEYS or not isinstance(dashboard, dict) or not dashboard.get("title"):
            return 400, {"message": "bad request data"}
        uid = dashboard.get("uid")
        if dashboard.get("id") is not None or not isinstance(uid, str) or not _UID.fullmatch(uid):
            return 400, {"message": "uid contains illegal characters", "status": "bad-request"}
        if body["folderUid"] not in self.folders:
            return 400, {"message": "folder not found", "status": "not-found"}
        if uid in self.provisioned:
            return 400, {"message": "Cannot save provisioned dashboard", "status": "bad-request"}
        if uid in self.dashboards and not body.get("overwrite"):
            return 412, {"message": "The dashboard has been changed by someone else",
                         "status": "version-mismatch"}  # fmt: skip
        self.dashboards[uid] = dashboard
        self.folder_of[uid] = body["folderUid"]
        self.messages.append(body["message"])
        self.versions[uid] = self.versions.get(uid, 0) + 1
        return 200, {
            "id": len(self.dashboards), "uid": uid, "url": f"{self.prefix}/d/{uid}/some-slug",
            "status": "success", "version": self.versions[uid], "slug": "some-slug",
        }  # fmt: skip


@contextmanager
def grafana_stand_in(prefix: str = "") -> Iterator[GrafanaState]:
    """Served until the block ends, below `prefix`."""
    state = GrafanaState(prefix=prefix)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def _answer(self, body: Any) -> None:
            token = self.headers.get("authorization", "").removeprefix("Bearer ")
            status, told = state.answer(self.command, self.path, token, body)
            text = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Nothing: a test's output is for its failures."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_port}{prefix}"
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
