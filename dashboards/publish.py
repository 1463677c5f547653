"""Dashboards into a Grafana that runs.

They are put under a folder of their own and over what was there under the same uid: what somebody
changed in Grafana is lost, and stays in its history of versions. A dashboard that Grafana reads
from files (`ops/deploy/grafana`) cannot be put: Grafana refuses it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

FOLDER_UID = "pilothouse"
FOLDER_TITLE = "Pilothouse"
_TIMEOUT_SECONDS = 20.0


class PublishError(Exception):
    """Grafana did not take it. The message names where, why, and what to do."""


class Grafana(Protocol):
    """What publishing needs of Grafana. Both raise PublishError."""

    def ensure_folder(self, uid: str, title: str) -> None:
        """Have the folder; one that is there stays as it is."""

    def put_dashboard(self, dashboard: Mapping[str, Any], folder_uid: str, message: str) -> str:
        """Create or replace, by uid. Returns the address at which Grafana shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One dashboard that Grafana took."""

    uid: str
    title: str
    url: str


def publish(texts: Iterable[str], to: Grafana, message: str) -> list[Published]:
    """Put every dashboard, in order; those before one that is refused stay. `message` stands in
    the history of versions. Raises PublishError."""
    to.ensure_folder(FOLDER_UID, FOLDER_TITLE)
    published = []
    for text in texts:
        dashboard = json.loads(text)
        url = to.put_dashboard(dashboard, FOLDER_UID, message)
        published.append(Published(uid=dashboard["uid"], title=dashboard["title"], url=url))
    return published


class GrafanaServer:
    """A Grafana by its HTTP API (`/api/folders`, `/api/dashboards/db`), through grafana-api.

    `token` is of a service account that may write dashboards and folders (role Editor).
    """

    def __init__(self, url: str, token: str) -> None:
        """Raises PublishError where `url` cannot be one of a server."""
        from grafana_api.grafana_face import GrafanaFace

        self._url = url
        self._face = GrafanaFace(auth=token, timeout=_TIMEOUT_SECONDS, **_address(url))

    def ensure_folder(self, uid: str, title: str) -> None:
        """See `Grafana`."""
        from grafana_api.grafana_api import GrafanaClientError

        try:
            self._asked("read folders", self._face.folder.get_folder, uid)
        except PublishError as error:
            cause = error.__cause__
            if not isinstance(cause, GrafanaClientError) or cause.status_code != 404:
                raise
            self._asked("make a folder", self._face.folder.create_folder, title, uid)

    def put_dashboard(self, dashboard: Mapping[str, Any], folder_uid: str, message: str) -> str:
        """See `Grafana`."""
        body = {
            "dashboard": {**dashboard, "id": None},
            "folderUid": folder_uid,
            "message": message,
            "overwrite": True,
        }
        what = f"take the dashboard {dashboard['uid']}"
        answer = self._asked(what, self._face.dashboard.update_dashboard, body)
        if not isinstance(answer, dict) or answer.get("status") != "success":
            raise PublishError(f"{self._url} answered, but not as Grafana does: is it one?")
        return urljoin(self._url, str(answer["url"]))

    def _asked(self, what: str, call: Any, *arguments: Any) -> Any:
        import requests
        from grafana_api.grafana_api import GrafanaException

        try:
            return call(*arguments)
        except GrafanaException as error:
            remedy = _REMEDIES.get(error.status_code, "")
            told = error.message if error.status_code != 401 else "the token is not valid"
            raise PublishError(f"{self._url} would not {what}: {told}{remedy}") from error
        except requests.exceptions.JSONDecodeError as error:
            raise PublishError(f"{self._url} answered, but no JSON: is it a Grafana?") from error
        except requests.exceptions.RequestException as error:
            raise PublishError(
                f"no Grafana answers at {self._url}: {type(error).__name__}; is it running, and "
                "can it be reached from here?"
            ) from error


def _address(url: str) -> dict[str, Any]:
    """In the words of grafana-api, which puts a URL together itself."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PublishError(f"{url[:200]} is no address of a Grafana: http://HOST:PORT")
    prefix = parts.path.strip("/")
    return {
        "protocol": parts.scheme,
        "host": f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname,
        "port": port,
        "url_path_prefix": f"{prefix}/" if prefix else "",
    }


_REMEDIES = {
    401: "; make one for a service account with the role Editor",
    403: "; the service account of the token needs the role Editor",
    404: "; is the address the one of Grafana's first page?",
    412: "; another dashboard has its uid or title: rename that one",
}
"""By status."""
