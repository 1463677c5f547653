"""Why a connection did not come about, as the system said it below what libraries made of it.

A port that refuses and a way that is lost are two things, and both are called a failed attempt.
"""

import errno
import re

_NOT_ASKED = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""This machine has no address of that kind, so nobody was asked there."""
_ERRNO = re.compile(r"\[Errno (\d+)\]")


def is_refusal(error: BaseException) -> bool:
    """The host is there, and nothing listens at its port: by each of the addresses that its name
    has and this machine could ask."""
    numbers = _numbers(_root_of(error)) - _NOT_ASKED
    return numbers == {errno.ECONNREFUSED}


def _numbers(error: BaseException) -> set[int]:
    """Of the errors of all attempts."""
    if isinstance(error, BaseExceptionGroup):
        return {number for each in error.exceptions for number in _numbers(_root_of(each))}
    if not isinstance(error, OSError):
        return set()
    if error.errno is not None:
        return {error.errno}
    # asyncio joins those of several addresses into one text.
    return {int(number) for number in _ERRNO.findall(str(error))}


def _root_of(error: BaseException) -> BaseException:
    while (below := error.__cause__ or error.__context__) is not None:
        error = below
    return error
