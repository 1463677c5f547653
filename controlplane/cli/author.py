"""Who changes something, as far as the command line knows."""

import getpass


def default_author() -> str:
    """The user who runs this; `unknown` where a container's user id has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
