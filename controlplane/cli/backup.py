"""`pilothouse db backup` and `pilothouse db restore`."""

from datetime import UTC, datetime
from pathlib import Path

import click

from controlplane.cli.audited import reason_option
from controlplane.cli.author import default_author
from controlplane.cli.database_failures import EXIT_CODES, database_failures
from controlplane.cli.database_options import database_options, database_urls
from controlplane.cli.examples import examples
from controlplane.cli.progress import counting_bar
from controlplane.cli.sole_use import sole_use
from controlplane.store.archive import check_archive
from controlplane.store.backup import write_backup
from controlplane.store.connection import DatabaseKind
from controlplane.store.integrity import ConfigDigest
from controlplane.store.restore import restore_backup
from controlplane.store.restored_access import RestoredAccess, note_restored

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
        ("pilothouse db restore monday.tar.gz --revoke-keys", "and no key of then opens anything"),
    )
    + "\n\n"
    + EXIT_CODES
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@_with_requests_option
@click.option(
    "--revoke-keys",
    is_flag=True,
    help="Revoke every key that the backup brings back. Users and passwords stay as they were.",
)
@reason_option
@database_options
def restore(
    file: Path,
    with_requests: bool,
    revoke_keys: bool,
    reason: str,
    state_dir: Path,
    config_url: str | None,
    requests_url: str | None,
) -> None:
    """Bring back what `pilothouse db backup` saved, into empty databases.

    FILE is read whole before anything is touched, and every digest is computed again before
    anything is kept: it prints the digests that the backup printed. A backup of an older
    version is restored and upgraded. Stop the control plane first: one that runs on this state
    directory, or on the same databases, makes this refuse.

    Access is what it was then, too: a key that was revoked since opens again, a user who was
    disabled since may log in, and passwords are the old ones. It is entered into the audit.
    """
    urls = _chosen(database_urls(state_dir, config_url, requests_url), with_requests)
    with (
        database_failures(),
        sole_use(state_dir, urls, "pilothouse db restore"),
        counting_bar() as progress,
    ):
        progress(f"checking {file.name}", 0, 1)
        archive = check_archive(file)
        digest = restore_backup(archive, urls, progress)
        assert digest is not None, "config is always restored"
        access = note_restored(
            urls,
            archive,
            digest,
            revokes_keys=revoke_keys,
            actor=default_author(),
            reason=reason,
        )
    at = datetime.fromtimestamp(archive.header.created_at_unix_ns / 1e9, UTC)
    click.echo(f"restored {archive.num_rows(urls)} rows saved at {at:%Y-%m-%d %H:%M:%SZ}")
    _tell_digest(digest)
    _tell_access(access)
    if DatabaseKind.REQUESTS not in urls and DatabaseKind.REQUESTS in archive.header.databases:
        click.echo("request data is in the file too: --with-requests restores it")


def _chosen(urls: dict[DatabaseKind, str], with_requests: bool) -> dict[DatabaseKind, str]:
    return {kind: url for kind, url in urls.items() if with_requests or kind is DatabaseKind.CONFIG}


def _tell_access(access: RestoredAccess) -> None:
    if access.num_revoked:
        click.echo(f"revoked {access.num_revoked} keys: programs need new ones")
    if access.num_keys or access.num_users:
        click.echo(
            f"access is as it was then: {access.num_keys} keys open again, and {access.num_users} "
            f"users have the roles and passwords of then. What was revoked, disabled or changed "
            f"since must be done again (--revoke-keys ends all keys)"
        )


def _tell_digest(config: ConfigDigest) -> None:
    click.echo(f"config digest {config.digest} over {len(config.revisions)} revisions")
