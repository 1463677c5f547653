"""Whatever answers or does not: one line, a remedy, and an exit code that means something."""

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode, exit_code_of_status
from controlplane.cli.failures import failure_of_transport
from tests.controlplane.cli.strange_server import strange_server
from tests.dataplane.gateway.running_gateway import running_gateway

COMMANDS = [
    ["get"],
    ["get", "replicas"],
    ["get", "gateways"],
    ["get", "events"],
    ["get", "model", "smollm2"],
    ["get", "revisions", "model", "smollm2"],
    ["describe", "deployment", "chat"],
    ["describe", "replica", "chat-1"],
    ["describe", "gateway", "gateway-0"],
    ["diff", "policy", "chat", "1"],
    ["requests"],
    ["requests", "--live"],
    ["requests", "--all", "-o", "json"],
    ["trace", "abc"],
    ["usage", "--by", "tenant"],
]
EVERY_COMMAND = pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--url", url])


def one_line(result: Result) -> str:
    [line] = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert result.stdout == ""
    assert "Traceback" not in result.output
    return line


@EVERY_COMMAND
def test_nobody_listens(arguments: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]

    result = run(f"http://127.0.0.1:{port}", *arguments)

    assert result.exit_code == ExitCode.UNREACHABLE
    assert "Start one with `pilothouse serve`" in one_line(result)


def test_a_real_gateway_is_told_from_a_control_plane(tmp_path: Path) -> None:
    async def ask() -> list[Result]:
        async with running_gateway(tmp_path, None) as gateway:
            return [await asyncio.to_thread(run, gateway.url, *arguments) for arguments in COMMANDS]

    for arguments, result in zip(COMMANDS, asyncio.run(ask()), strict=True):
        assert result.exit_code == ExitCode.UNREACHABLE, arguments
        line = one_line(result)
        assert "is a gateway, or another OpenAI-compatible server" in line
        assert "http://127.0.0.1:8700" in line


@EVERY_COMMAND
@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (404, '{"detail": "Not Found"}', {}),
        (404, "<html>nginx</html>", {"content-type": "text/html"}),
        (200, "<html>Grafana</html>", {"content-type": "text/html"}),
        (200, '{"status": "success", "data": [1]}', {}),
        (200, '[{"id": 1}]', {}),
        (200, '"ok"', {}),
        (302, "", {"location": "https://login.example/"}),
    ],
    ids=["no such path", "a web server", "a page", "an object", "a list", "a word", "a login"],
)
def test_some_other_server_answers(
    arguments: list[str], status: int, body: str, headers: dict[str, str]
) -> None:
    with strange_server(status, body, headers) as (url, _):
        result = run(url, *arguments)

    assert result.exit_code == ExitCode.UNREACHABLE
    line = one_line(result)
    assert "no Pilothouse control plane" in line or "give the URL of the control plane" in line


@EVERY_COMMAND
@pytest.mark.parametrize(
    ("status", "detail", "exit_code", "said"),
    [
        (401, "a key is needed", ExitCode.NOT_ALLOWED, "PILOTHOUSE_KEY"),
        (403, "this needs the role operator", ExitCode.NOT_ALLOWED, "Ask an admin"),
        (409, "several", ExitCode.FAILED, "several"),
        (422, "limit: is no number", ExitCode.USAGE, "limit: is no number"),
        (503, "it ends", ExitCode.FAILED, "it ends"),
        (500, None, ExitCode.FAILED, "logs/controlplane.log"),
        (401, None, ExitCode.NOT_ALLOWED, "wants to know who asks"),
    ],
)
def test_the_control_plane_refuses(
    arguments: list[str], status: int, detail: str | None, exit_code: int, said: str
) -> None:
    body = "Internal Server Error" if detail is None else json.dumps({"detail": detail})
    with strange_server(status, body) as (url, _):
        result = run(url, *arguments)

    assert result.exit_code == exit_code
    line = one_line(result)
    assert said in line
    assert detail is None or detail in line


def test_what_is_not_there_ends_with_4() -> None:
    with strange_server(404, '{"detail": "there is no Model x"}') as (url, _):
        result = run(url, "get", "model", "x")

    assert (result.exit_code, one_line(result)) == (4, "Error: there is no Model x")


@contextlib.contextmanager
def babbling_server(said: bytes) -> Iterator[str]:
    """It sends something at once and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def babble() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(said)

    thread = threading.Thread(target=babble)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_it_does_not_speak_http() -> None:
    with babbling_server(b"SSH-2.0-OpenSSH_9.2\r\n") as address:
        result = run(f"http://{address}", "get")

    assert result.exit_code == ExitCode.UNREACHABLE
    assert "does not speak HTTP" in one_line(result)


def test_https_to_a_server_without_tls_says_to_write_http() -> None:
    with strange_server(200, "{}") as (url, _):
        result = run(url.replace("http:", "https:"), "get")

    assert result.exit_code == ExitCode.UNREACHABLE
    assert "If it serves plain HTTP, write http://" in one_line(result)


def test_a_certificate_that_nobody_vouches_for_names_the_remedy(tmp_path: Path) -> None:
    key, certificate = tmp_path / "k.pem", tmp_path / "c.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=localhost", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def shake_hands() -> None:
        connection, _ = listener.accept()
        with contextlib.suppress(ssl.SSLError, OSError):
            context.wrap_socket(connection, server_side=True)
        connection.close()

    thread = threading.Thread(target=shake_hands)
    thread.start()
    result = run(f"https://127.0.0.1:{listener.getsockname()[1]}", "get")
    thread.join()
    listener.close()

    assert result.exit_code == ExitCode.UNREACHABLE
    assert "its certificate is not trusted" in one_line(result)
    assert "SSL_CERT_FILE" in result.stderr


def test_a_server_that_takes_the_connection_and_says_nothing() -> None:
    failure = failure_of_transport("http://cp:8700", httpx.ReadTimeout("timed out"))

    assert failure.exit_code == ExitCode.UNREACHABLE
    assert "does not answer in time" in failure.message


@pytest.mark.parametrize("url", ["127.0.0.1:8700", "ftp://x", "http:///x", "http://[::1"])
def test_an_address_that_is_none_is_a_mistake_of_the_command_line(url: str) -> None:
    result = run(url, "get")

    assert result.exit_code == ExitCode.USAGE
    assert "write it as http://127.0.0.1:8700" in one_line(result)


@pytest.mark.parametrize(
    ("status", "exit_code"),
    [(400, 2), (401, 6), (403, 6), (404, 4), (409, 1), (410, 4), (422, 2), (429, 1), (500, 1)],
)
def test_every_refusal_has_its_exit_code(status: int, exit_code: int) -> None:
    assert exit_code_of_status(status) == exit_code
