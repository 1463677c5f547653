"""`pilothouse support-bundle`: one file for whoever helps."""

import os
import time
from pathlib import Path

import click

from controlplane.cli.client import url_option
from controlplane.cli.credentials import key_headers
from controlplane.cli.examples import examples
from controlplane.cli.options import database_options
from controlplane.cli.progress import progress_bar
from controlplane.cli.terminal import say


@click.command(
    "support-bundle",
    epilog=examples(
        ("pilothouse support-bundle", "into the current folder"),
        (
            "pilothouse support-bundle --state-dir /var/lib/pilothouse --output /tmp/b.tar.gz",
            "of another installation",
        ),
    ),
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file to write; it must not exist. By default pilothouse-support-TIME.tar.gz.",
)
@database_options
@url_option
def support_bundle(
    output: Path | None,
    state_dir: Path,
    config_url: str | None,
    requests_url: str | None,
    url: str,
) -> None:
    """Gather what somebody else needs to help, in one tar.gz that only you can read.

    Versions, settings, schema, documents, replicas, gateways, metrics, ends of logs and facts of
    this machine; what cannot be had is noted in its manifest.json, so it works with everything
    down. Keys, tokens and passwords are masked, and nothing of what callers sent or got is in it:
    log lines about a request keep their names and numbers alone. Look before you send it.
    """
    from controlplane.cli.database_options import database_urls
    from controlplane.support.asking import Asker
    from controlplane.support.bundle import write_bundle

    now = int(time.time())
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    path = output or Path(f"pilothouse-support-{stamp}.tar.gz")
    state_dir = state_dir.absolute()
    urls = database_urls(state_dir, config_url, requests_url)
    asker = Asker(url, _headers())
    try:
        with progress_bar() as bar:
            entries = write_bundle(path, state_dir, urls, asker, os.environ, now, bar.advance)
    except FileExistsError as error:
        raise click.UsageError(f"{path} exists; name another with --output") from error
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror or error}") from error
    for entry in entries:
        if entry.problem is not None:
            say(f"{entry.file}: {entry.problem}", is_error=True)
    size = path.stat().st_size
    say(f"{path} ({size:,} bytes, {sum(e.num_bytes > 0 for e in entries)} files)")


def _headers() -> dict[str, str]:
    """Without a key where there is none that could be one: the rest is wanted all the more."""
    try:
        return key_headers()
    except click.UsageError as error:
        say(error.message, is_error=True)
        return {}
