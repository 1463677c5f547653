"""Why a call of the control plane came to nothing: one line, the remedy, an exit code."""

import ssl
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli.exit_codes import ExitCode, exit_code_of_status
from controlplane.cli.terminal import printable

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:8700"
_NAME_ANOTHER = "name another with --url or PILOTHOUSE_URL"
_OWN_NOT_FOUND = "Not Found"
"""What the web framework says of a path that nobody serves; our own answers say what is missing."""


class CallError(click.ClickException):
    """A call failed; the command ends with `exit_code`."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        super().__init__(printable(message))
        self._exit_code = exit_code

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """Read by click, which takes one for a whole class of errors."""
        return self._exit_code


class RefusedError(CallError):
    """The control plane answered, and the answer is no."""

    def __init__(self, message: str, status_code: int, body: Any) -> None:
        super().__init__(message, exit_code_of_status(status_code))
        self.status_code = status_code
        self.body = body
        """Its JSON, None where it sent none."""


class UnreachableError(CallError):
    """No control plane answers."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.UNREACHABLE)


class WrongUrlError(CallError):
    """The URL cannot be one of a control plane."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)


def failure_of_transport(url: str, error: Exception) -> CallError:
    """For a call that got no answer."""
    import httpx

    if isinstance(error, (httpx.UnsupportedProtocol, httpx.InvalidURL)):
        return WrongUrlError(
            f"{url!r} is no address of a control plane ({error}); write it as {DEFAULT_URL}"
        )
    tls = _tls_error(error)
    if tls is not None:
        return UnreachableError(f"no secure connection to {url}: {_tls_remedy(tls)}")
    if isinstance(error, httpx.ReadTimeout):
        return UnreachableError(
            f"{url} takes the connection and does not answer in time; look at its log, or "
            f"{_NAME_ANOTHER}"
        )
    if isinstance(error, httpx.RemoteProtocolError):
        return UnreachableError(
            f"what listens at {url} does not speak HTTP ({error}); if it serves TLS write "
            f"https://, otherwise {_NAME_ANOTHER}"
        )
    return UnreachableError(
        f"no control plane answers at {url} ({error or type(error).__name__}). Start one with "
        f"`pilothouse serve`, or {_NAME_ANOTHER}"
    )


def failure_of_answer(url: str, response: "httpx.Response", body: Any) -> CallError:
    """For an answer that is no success, or is nothing that a control plane says."""
    address = str(response.request.url)
    if _is_of_a_gateway(body):
        return UnreachableError(
            f"{url} is a gateway, or another OpenAI-compatible server, and no control plane. "
            f"The control plane of `pilothouse serve` is at {DEFAULT_URL}: {_NAME_ANOTHER}"
        )
    if response.is_redirect:
        target = response.headers.get("location", "another address")
        return UnreachableError(
            f"{address} sends everybody to {target}: give the URL of the control plane itself"
        )
    detail = body.get("detail") if isinstance(body, dict) else None
    if detail is None and isinstance(body, dict) and "problems" in body:
        detail = "the documents are wrong"
    if isinstance(detail, str) and detail != _OWN_NOT_FOUND:
        remedy = _KEY_REMEDIES.get(response.status_code)
        message = f"{detail.rstrip('.')}. {remedy}" if remedy else detail
        return RefusedError(message, response.status_code, body)
    if response.status_code in _KEY_REMEDIES:
        message = f"{address} wants to know who asks. {_KEY_REMEDIES[response.status_code]}"
        return RefusedError(message, response.status_code, body)
    if response.status_code >= 500:
        message = (
            f"{address} failed with {response.status_code} ({_beginning(response)}); the cause is "
            f"in the control plane's log (logs/controlplane.log in its state directory)"
        )
        return RefusedError(message, response.status_code, body)
    return not_a_control_plane(url, f"{address} answered {response.status_code}")


def not_a_control_plane(url: str, why: str) -> UnreachableError:
    """For a server that answers, but not as a control plane of this version would."""
    return UnreachableError(
        f"{url} is no Pilothouse control plane, or one of another version: {why}. Compare "
        f"`pilothouse --version` on both sides, or {_NAME_ANOTHER}"
    )


_KEY_REMEDIES = {
    401: "Give a key in PILOTHOUSE_KEY; an admin makes one with `pilothouse keys`",
    403: "Ask an admin for a key whose role may do this",
}


def _is_of_a_gateway(body: Any) -> bool:
    """Whether this is an error in OpenAI's form: {"error": {"message", "type", ...}}."""
    error = body.get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and {"message", "type"} <= error.keys()


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _tls_remedy(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}). Name the file of your "
            f"authority in SSL_CERT_FILE, and use the host name that the certificate has"
        )
    return f"{error.reason or error}. If it serves plain HTTP, write http://"


def _beginning(response: "httpx.Response") -> str:
    text = response.text.strip()
    return text[:120] if text else "no further word"
