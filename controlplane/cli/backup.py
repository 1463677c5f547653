"""`pilothouse db backup` and `pilothouse db restore`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from controlplane.cli.database_failures import EXIT_CODES, database_failures
from controlplane.cli.database_options import database_options, database_urls
from controlplane.cli.examples import examples
from controlplane.cli.progress import counting_bar
from controlplane.store.archive import check_archive
from controlplane.store.backup import write_backup
from controlplane.store.connection import DatabaseKind
from controlplane.store.integrity import ConfigDigest
from controlplane.store.restore import restore_backup
from controlplane.supervisor.state_lock import state_lock

_with_requests_option = click.option(
    "--with-requests",
    is_flag=True,
    help="Request data as well: counts, rows and full records. Without it, config alone.",
)


@click.command(
    epilog=examples(
        ("pilothouse db backup monday.tar.gz", "config alone"),
        ("pilothouse db backup monday.tar.gz --with-requests", "and what was asked"),
    )
    + "\n\n"
    + EXIT_CODES
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_with_requests_option
@database_options
def backup(
    file: Path,
    with_requests: bool,
    state_dir: Path,
    config_url: str | None,
    requests_url: str | None,
) -> None:
    """Save config (and request data) into FILE, a .tar.gz, while everything runs.

    The file is the same whatever database it came from, is readable by you alone, and holds
    what users and keys are checked against: keep it as you keep a password file. Logins are
    not in it. FILE must not exist; it appears when it is whole.
    """
    urls = _chosen(database_urls(state_dir, config_url, requests_url), with_requests)
    with database_failures():
        with counting_bar() as progress:
            manifest = write_backup(file, urls, progress)
        num_rows = sum(manifest.num_rows.values())
        click.echo(f"{file}: {num_rows} rows, {file.stat().st_size} bytes")
        _tell_digest(ConfigDigest(revisions=manifest.revisions, damaged=()))


@click.command(
    epilog=examples(
        ("pilothouse db restore monday.tar.gz", "into databases that are not there yet"),
    )
    + "\n\n"
    + EXIT_CODES
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@_with_requests_option
@database_options
def restore(
    file: Path,
    with_requests: bool,
    state_dir: Path,
    config_url: str | None,
    requests_url: str | None,
) -> None:
    """Bring back what `pilothouse db backup` saved, into empty databases.

    FILE is read whole before anything is touched, and every digest is computed again before
    anything is kept: it prints the digests that the backup printed. A backup of an older
    version is restored and upgraded. Stop the control plane first.
    """
    urls = _chosen(database_urls(state_dir, config_url, requests_url), with_requests)
    with (
        database_failures(),
        state_lock(state_dir.absolute(), "controlplane.lock", "control plane"),
        counting_bar() as progress,
    ):
        progress(f"checking {file.name}", 0, 1)
        archive = check_archive(file)
        digest = restore_backup(archive, urls, progress)
    at = datetime.fromtimestamp(archive.header.created_at_unix_ns / 1e9, UTC)
    click.echo(f"restored {archive.num_rows(urls)} rows saved at {at:%Y-%m-%d %H:%M:%SZ}")
    if digest is not None:
        _tell_digest(digest)
    if DatabaseKind.REQUESTS not in urls and DatabaseKind.REQUESTS in archive.header.databases:
        click.echo("request data is in the file too: --with-requests restores it")


def _chosen(urls: dict[DatabaseKind, str], with_requests: bool) -> dict[DatabaseKind, str]:
    return {kind: url for kind, url in urls.items() if with_requests or kind is DatabaseKind.CONFIG}


def _tell_digest(config: ConfigDigest) -> None:
    click.echo(f"config digest {config.digest} over {len(config.revisions)} revisions")
