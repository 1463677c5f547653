"""The key that the command line shows: from the environment or a file, never from an argument,
which other users of the machine could read."""

import os
from pathlib import Path

import click

from dataplane.access import key_id_of, read_key_file

KEY_VARIABLE = "PILOTHOUSE_KEY"
FILE_VARIABLE = "PILOTHOUSE_KEY_FILE"


def key_headers() -> dict[str, str]:
    """The headers of every call. Raises click.UsageError for what is no key."""
    key = _find_key()
    return {} if key is None else {"authorization": f"Bearer {key}"}


def _find_key() -> str | None:
    path = click.get_current_context().find_root().params.get("key_file")
    if path is not None:
        try:
            return read_key_file(Path(path))
        except OSError as error:
            raise click.UsageError(f"--key-file {path}: {error.strerror}") from error
        except ValueError as error:
            raise click.UsageError(f"--key-file: {error}") from error
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        return None
    if key_id_of(key) is None:
        raise click.UsageError(f"{KEY_VARIABLE} holds no key (phk_<id>_<secret>)")
    return key
