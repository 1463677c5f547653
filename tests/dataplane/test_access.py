"""Keys open what they are for, until they expire, and nothing tells who guesses anything."""

from pathlib import Path

import pytest

from dataplane.access import (
    AccessKey,
    AuthMode,
    KeyProblem,
    KeyRing,
    OpenBindError,
    Role,
    check_bind,
    create_key,
    key_id_of,
    read_bearer,
    read_key_file,
)

NOW = 1_000_000


def ring_with(expires_at_unix_ns: int | None = None) -> tuple[KeyRing, str, AccessKey]:
    new = create_key()
    key = AccessKey(
        key_id=new.key_id,
        secret_digest=new.secret_digest,
        role=Role.CLIENT,
        tenant="acme",
        expires_at_unix_ns=expires_at_unix_ns,
    )
    return KeyRing([key]), new.text, key


def test_a_key_opens_what_it_was_made_for() -> None:
    ring, text, key = ring_with()

    assert ring.find(text, NOW) is key
    assert key.secret_digest not in text
    assert text.split("_", 2)[2] not in repr(key)


def test_another_secret_and_an_unknown_id_are_told_apart_by_nobody() -> None:
    ring, text, _ = ring_with()
    head = text.rsplit("_", 1)[0] if text.count("_") == 2 else text[:16]
    other_secret = f"{text[:17]}{create_key().text[17:]}"

    assert key_id_of(other_secret) == key_id_of(text)
    assert ring.find(other_secret, NOW) is KeyProblem.UNKNOWN
    assert ring.find(create_key().text, NOW) is KeyProblem.UNKNOWN
    assert ring.find(head, NOW) is KeyProblem.MALFORMED


@pytest.mark.parametrize("text", ["", "none", "phk_x_y", "phk_ABCDEFGHIJKL_" + "a" * 43, "\x00"])
def test_what_is_no_key_is_called_malformed(text: str) -> None:
    ring, _, _ = ring_with()

    assert ring.find(text, NOW) is KeyProblem.MALFORMED


def test_a_key_ends_at_its_instant() -> None:
    ring, text, key = ring_with(expires_at_unix_ns=NOW)

    assert ring.find(text, NOW - 1) is key
    assert ring.find(text, NOW) is KeyProblem.EXPIRED


def test_no_two_keys_are_alike() -> None:
    made = [create_key() for _ in range(100)]

    assert len({key.key_id for key in made}) == len({key.text for key in made}) == 100
    assert all(key_id_of(key.text) == key.key_id for key in made)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("", None),
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic abc", None),
        ("Bearer", None),
    ],
)
def test_a_bearer_token_is_what_stands_behind_the_word(
    header: str | None, token: str | None
) -> None:
    assert read_bearer(header) == token


def test_each_role_of_people_includes_the_one_before_and_no_program() -> None:
    assert Role.ADMIN.includes(Role.OPERATOR)
    assert Role.OPERATOR.includes(Role.VIEWER)
    assert not Role.VIEWER.includes(Role.OPERATOR)
    assert not Role.ADMIN.includes(Role.GATEWAY)
    assert not Role.ADMIN.includes(Role.CLIENT)
    assert not Role.CLIENT.includes(Role.VIEWER)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "pilothouse.example", ""])
def test_other_machines_are_not_let_in_without_authentication(host: str) -> None:
    with pytest.raises(OpenBindError, match="--auth required"):
        check_bind(host, AuthMode.OFF)
    check_bind(host, AuthMode.REQUIRED)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_may_listen_to_itself(host: str) -> None:
    check_bind(host, AuthMode.OFF)


def test_a_key_file_holds_a_key_and_a_wrong_one_is_named_without_its_content(
    tmp_path: Path,
) -> None:
    text = create_key().text
    good, bad = tmp_path / "good.key", tmp_path / "bad.key"
    good.write_text(f"{text}\n")
    bad.write_text("hunter2hunter2")

    assert read_key_file(good) == text
    with pytest.raises(ValueError, match=r"bad\.key") as refused:
        read_key_file(bad)
    assert "hunter2" not in str(refused.value)
