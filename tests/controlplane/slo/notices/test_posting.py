"""A webhook is told, and its address is nobody else's."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.hooks import NotifyError
from controlplane.slo.alert_windows import Severity
from controlplane.slo.notices import posting
from controlplane.slo.notices.address import Address, read_address
from controlplane.slo.notices.notice import Notice, NoticeKind
from controlplane.slo.notices.posting import post_json
from controlplane.slo.notices.slack import Slack, slack_message
from controlplane.slo.notices.trying import trial_notice
from controlplane.slo.notices.webhook import Webhook
from tests.controlplane.slo.burning_alert import burning
from tests.controlplane.slo.notices.webhook_server import SECRET, WebhookServer, serve_webhook

NOTICE = Notice(
    kind=NoticeKind.FIRING,
    deployment="chat",
    at_unix_ns=1_790_000_000 * 10**9,
    firing=(burning(started_at_unix_ns=1_789_999_940 * 10**9),),
    num_held_back=2,
    console_url="http://console",
)


@pytest.fixture
def hook() -> Iterator[WebhookServer]:
    with serve_webhook() as served:
        yield served


def _file(folder: Path, text: str) -> Path:
    path = folder / "address"
    path.write_text(text)
    return path


def test_a_webhook_gets_the_alerts_with_times_that_anybody_reads(
    hook: WebhookServer, tmp_path: Path
) -> None:
    file = _file(tmp_path, f"# of the on-call\n{hook.url}\nAuthorization: Bearer abc\n")
    assert Webhook(file).notify(NOTICE) == "HTTP 200"
    (told,) = hook.heard
    assert told["kind"] == "firing"
    assert told["sent_at"] == "2026-09-21T14:13:20Z"
    (alert,) = told["firing"]
    assert alert["started_at"] == "2026-09-21T14:12:20Z"
    assert alert["fingerprint"] == NOTICE.firing[0].subject.fingerprint
    assert (alert["severity"], alert["grade"], alert["deployment"]) == (
        "page",
        "page_quick",
        "chat",
    )
    assert hook.headers[0]["Authorization"] == "Bearer abc"


def test_an_address_that_changes_counts_from_the_next_message_on(
    hook: WebhookServer, tmp_path: Path
) -> None:
    file = _file(tmp_path, f"{hook.url}\n")
    notifier = Slack(file)
    notifier.notify(NOTICE)
    with serve_webhook() as other:
        file.write_text(other.url)
        notifier.notify(NOTICE)
        assert len(other.heard) == 1
    assert len(hook.heard) == 1


def test_what_stands_in_a_name_is_no_markup_of_slack() -> None:
    notice = Notice(
        kind=NoticeKind.FIRING,
        deployment="<!channel>",
        at_unix_ns=0,
        firing=(burning(Severity.TICKET, deployment="<!here> & co"),),
    )
    text = slack_message(notice)["text"]
    assert "<!" not in text
    assert "&lt;!here&gt; &amp; co" in text


def test_whose_an_alert_is_stands_in_every_form(hook: WebhookServer, tmp_path: Path) -> None:
    ours = replace(NOTICE, firing=(replace(NOTICE.firing[0], team="chat-oncall"),))
    for notice in (ours, NOTICE):
        Webhook(_file(tmp_path, hook.url)).notify(notice)
    assert [told["firing"][0]["team"] for told in hook.heard] == ["chat-oncall", None]
    assert "Team: chat-oncall." in slack_message(ours)["text"]
    assert "Team" not in slack_message(NOTICE)["text"]


@pytest.mark.parametrize("status", [302, 404, 429, 500])
def test_whoever_does_not_take_it_is_quoted_without_the_address(
    hook: WebhookServer, status: int
) -> None:
    hook.status, hook.answer = status, f"no_service at {hook.url} for Bearer abc\n\x1b[31m"
    address = Address(hook.url, {"Authorization": "Bearer abc"})
    with pytest.raises(NotifyError) as caught:
        post_json(address, {})
    said = str(caught.value)
    assert said.startswith(f"HTTP {status}: no_service")
    assert SECRET not in said
    assert "abc" not in said
    assert said.isprintable()
    assert len(hook.heard) == 1  # and it was followed nowhere


@pytest.mark.parametrize("quoted", ["key-0451", "/in/s3cr3t", "t0k3n", "Bearer t0k3n", "hunter2"])
def test_no_part_of_the_address_is_quoted_by_itself(hook: WebhookServer, quoted: str) -> None:
    hook.status, hook.answer = 403, f"{quoted} may not"
    host = hook.url.removeprefix("http://").partition("/")[0]
    address = Address(
        f"http://me:hunter2@{host}/in/s3cr3t?key=key-0451", {"Authorization": "Bearer t0k3n"}
    )
    with pytest.raises(NotifyError, match=r"HTTP 403: \*\*\* may not") as caught:
        post_json(address, {})
    assert quoted not in str(caught.value)


def test_nobody_there_is_told_without_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/services/{SECRET}"
    with pytest.raises(NotifyError) as caught:
        post_json(Address(url, {}), {})
    assert "ConnectError" in str(caught.value)
    assert SECRET not in str(caught.value)


@contextmanager
def _dripping(begins: bytes, num_drops: int, *, every: float = 0.02) -> Iterator[str]:
    """Whoever answers with `begins`, then one byte after the other, and then closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def _answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(2**16)
                connection.sendall(begins)
                for _ in range(num_drops):
                    connection.sendall(b"a")
                    time.sleep(every)

        thread = threading.Thread(target=_answer)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        thread.join()


@pytest.mark.parametrize("num_drops", [3, 200])
def test_who_took_it_has_taken_it_whatever_else_is_not_said(
    monkeypatch: pytest.MonkeyPatch, num_drops: int
) -> None:
    monkeypatch.setattr(posting, "_SECONDS", 1)
    began = time.monotonic()
    with _dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", num_drops) as url:
        assert post_json(Address(url, {}), {}) == "HTTP 200"
        assert time.monotonic() - began < 20


def test_an_answer_that_is_cut_off_is_quoted_as_far_as_it_came() -> None:
    with (
        _dripping(b"HTTP/1.1 500 X\r\nContent-Length: 1000\r\n\r\nno room", 0) as url,
        pytest.raises(NotifyError, match="HTTP 500: no room"),
    ):
        post_json(Address(url, {}), {})


@pytest.mark.parametrize(
    ("begins", "said"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nX-Slow: ", "no answer within 3 s", id="head"),
        pytest.param(
            b"HTTP/1.1 500 X\r\nContent-Length: 1000\r\n\r\n", "HTTP 500: aaaa", id="body"
        ),
    ],
)
def test_an_answer_that_drips_is_waited_for_no_longer_than_any(
    monkeypatch: pytest.MonkeyPatch, begins: bytes, said: str
) -> None:
    # Longer than it takes a busy machine to begin, and much less than all drops would.
    monkeypatch.setattr(posting, "_DEADLINE_SECONDS", 3)
    monkeypatch.setattr(posting, "_SECONDS", 2)
    began = time.monotonic()
    with _dripping(begins, 1500) as url:
        with pytest.raises(NotifyError, match=said):
            post_json(Address(url, {}), {})
        assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", f"ftp://x/{SECRET}", SECRET, f"https:///{SECRET}", f"https://x/\n{SECRET}"],
)
def test_a_file_that_holds_no_address_is_named_and_not_quoted(tmp_path: Path, text: str) -> None:
    file = _file(tmp_path, text)
    with pytest.raises(ValueError, match=str(file)) as caught:
        read_address(file)
    assert SECRET not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gone cannot be read: No such file"):
        read_address(tmp_path / "gone")


def test_a_trial_is_of_no_deployment_and_links_to_none() -> None:
    text = slack_message(trial_notice("ann", "http://console", 0))["text"]
    assert "|Deployment>" not in text
    assert "<http://console|Console>" in text
