"""Passwords, hashed with Argon2id at the library's current parameters (RFC 9106, low memory)."""

from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

MIN_LENGTH = 12
MAX_LENGTH = 1024


class PasswordError(ValueError):
    """A password that must not be set; says what one must be like."""


@cache
def hasher() -> PasswordHasher:
    """With the parameters that every password is hashed with."""
    return PasswordHasher()


def hash_password(password: str) -> str:
    """Raises PasswordError for one that is too short or too long."""
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise PasswordError(f"a password has {MIN_LENGTH} to {MAX_LENGTH} characters")
    return hasher().hash(password)


def is_right(password: str, password_hash: str | None) -> bool:
    """Whether it is the password. None: nobody is called so, which takes as long to say."""
    try:
        matches = hasher().verify(password_hash or _nobody(), password[: MAX_LENGTH + 1])
    except (VerificationError, InvalidHashError):
        return False
    return matches and password_hash is not None


@cache
def _nobody() -> str:
    # Verified where there is no such user, so that the time taken does not tell.
    return hasher().hash("nobody has this password")
