"""Passwords are hashed slowly, and who is nobody is told as slowly that a password is wrong."""

from collections.abc import Callable

import pytest
from argon2 import PasswordHasher, extract_parameters, profiles

from controlplane.access import passwords

PASSWORD = "correct horse battery"


def test_one_is_right_and_every_other_is_wrong() -> None:
    kept = passwords.hash_password(PASSWORD)
    assert passwords.is_right(PASSWORD, kept)
    assert not passwords.is_right(PASSWORD.upper(), kept)
    assert not passwords.is_right(PASSWORD, "no hash at all")
    assert passwords.hash_password(PASSWORD) != kept


def test_nobody_has_a_password_and_finding_out_takes_a_hash() -> None:
    assert not passwords.is_right("nobody has this password", None)


@pytest.mark.parametrize("password", ["x" * 11, "x" * 1025])
def test_one_that_is_too_short_or_too_long_is_refused(password: str) -> None:
    with pytest.raises(passwords.PasswordError):
        passwords.hash_password(password)


def test_where_it_counts_a_hash_takes_the_memory_and_time_of_rfc_9106(
    real_hasher: Callable[[], PasswordHasher],
) -> None:
    parameters = extract_parameters(real_hasher().hash(PASSWORD))
    assert parameters == profiles.RFC_9106_LOW_MEMORY
