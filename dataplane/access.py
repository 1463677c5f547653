"""Keys: who may call, as gateway and control plane alike know it.

A key is `phk_<id>_<secret>`. The id is public and finds the key; of the secret, 256 random
bits, only the SHA-256 is kept anywhere, which for a secret of that size is as good as a slow
hash and costs microseconds on the request path.
"""

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_KEY = re.compile(r"phk_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_ID_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_ID_LENGTH = 12
_SECRET_BYTES = 32


class Role(StrEnum):
    """What a key or a person may do. Viewer, operator and admin each include the one before."""

    CLIENT = "client"
    """Send requests through gateways for one tenant, and report the client's side of them."""
    GATEWAY = "gateway"
    """Be a gateway: follow snapshots, deliver reports and records."""
    ALERTMANAGER = "alertmanager"
    """Tell the control plane of alerts, and nothing else."""
    CONTROL_PLANE = "controlplane"
    """Ask one gateway what it has in flight. Made by control planes for themselves alone."""
    VIEWER = "viewer"
    """Read everything that is no secret; with a tenant, that tenant's requests alone."""
    OPERATOR = "operator"
    """Change what runs."""
    ADMIN = "admin"
    """Say who may do what."""

    def includes(self, other: "Role") -> bool:
        """Whether who has this role may do what `other` may."""
        if self is other:
            return True
        return self in _PEOPLE and other in _PEOPLE and _PEOPLE.index(self) > _PEOPLE.index(other)


GRANTABLE = tuple(role for role in Role if role is not Role.CONTROL_PLANE)
"""What a person can give to somebody."""
_PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
FOR_PEOPLE = tuple(role for role in GRANTABLE if role in _PEOPLE)
"""Of them, those that a person can have; the others are for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """One key that may be used, without its secret."""

    key_id: str
    secret_digest: str
    """SHA-256 of the secret, in hex."""
    role: Role
    tenant: str | None = None
    gateway: str | None = None
    """The only gateway that a control plane's key opens."""
    expires_at_unix_ns: int | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made. The text is shown once and kept by nobody."""

    key_id: str
    secret_digest: str
    text: str


class KeyProblem(StrEnum):
    """Why a key does not open."""

    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    """No such key, another secret, or one that was revoked: who asks is told no more."""
    EXPIRED = "expired"


def create_key() -> NewKey:
    """A new key from the operating system's randomness."""
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_LENGTH))
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    return NewKey(key_id, _digest(secret), f"phk_{key_id}_{secret}")


def key_id_of(text: str) -> str | None:
    """The public part of a key; None when `text` is not shaped like one."""
    match = _KEY.fullmatch(text)
    return None if match is None else match[1]


def read_bearer(authorization: str | None) -> str | None:
    """The token of an `Authorization: Bearer` header, None when there is none."""
    scheme, _, token = (authorization or "").partition(" ")
    token = token.strip()
    return token if scheme.casefold() == "bearer" and token else None


def judge_key(text: str, key: AccessKey | None, now_unix_ns: int) -> KeyProblem | None:
    """Whether `text` opens `key`, the one its id found; None when it does."""
    match = _KEY.fullmatch(text)
    if match is None:
        return KeyProblem.MALFORMED
    # Compared even where there is no key, so that time does not tell which ids exist.
    expected = "" if key is None else key.secret_digest
    if not hmac.compare_digest(_digest(match[2]), expected) or key is None:
        return KeyProblem.UNKNOWN
    if key.expires_at_unix_ns is not None and now_unix_ns >= key.expires_at_unix_ns:
        return KeyProblem.EXPIRED
    return None


class KeyRing:
    """The keys that a gateway enforces."""

    def __init__(self, keys: Iterable[AccessKey]) -> None:
        self._by_id: Mapping[str, AccessKey] = {key.key_id: key for key in keys}

    def find(self, text: str, now_unix_ns: int) -> AccessKey | KeyProblem:
        """The key that `text` opens, or why it opens none."""
        key = self._by_id.get(key_id_of(text) or "")
        problem = judge_key(text, key, now_unix_ns)
        if problem is not None or key is None:
            return problem or KeyProblem.UNKNOWN
        return key


class AuthMode(StrEnum):
    """Whether callers must show who they are."""

    OFF = "off"
    """Whoever reaches the port may do everything: only on this machine's own addresses."""
    REQUIRED = "required"


class OpenBindError(ValueError):
    """Somebody asked to listen for other machines with nothing to tell callers apart."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"refusing to listen on {host} without authentication: other machines could reach "
            "it. Add --auth required, or listen on 127.0.0.1"
        )


def check_bind(host: str, auth: AuthMode) -> None:
    """Raises OpenBindError for an address beyond this machine with authentication off."""
    if auth is AuthMode.OFF and not is_loopback(host):
        raise OpenBindError(host)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`. A name other than localhost may mean anything."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_key_file(path: Path) -> str:
    """The key in a file, which holds nothing else.

    Raises OSError, and ValueError when it is no key; never shows the content.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(4096).strip()
    if key_id_of(text) is None:
        raise ValueError(f"{path} holds no key (phk_<id>_<secret>)")
    return text


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
