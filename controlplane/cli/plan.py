"""`pilothouse plan`: what applying files would do, before anybody does it."""

from pathlib import Path

import click

from controlplane.cli.client import url_option
from controlplane.cli.examples import examples
from controlplane.cli.exit_codes import ExitCode
from controlplane.cli.options import files_option, output_option
from controlplane.cli.terminal import say, say_json


@click.command(
    epilog=examples(
        ("pilothouse plan -f conf/", "a folder, whole"),
        ("pilothouse plan -f policy.yaml --save policy.plan", "keep it, to apply it exactly"),
        ("pilothouse apply --plan policy.plan --watch", "apply what was kept"),
        ("pilothouse plan -f conf/ --check", "in CI: status 1 where anything would change"),
    )
)
@files_option(required=True)
@click.option(
    "--save",
    "save_to",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep the plan in FILE, for `pilothouse apply --plan FILE`: it is applied exactly, and "
    "refused where the world has moved since.",
)
@click.option(
    "--check", is_flag=True, help="End with status 1 where applying would change anything."
)
@output_option
@url_option
def plan(files: tuple[str, ...], save_to: Path | None, check: bool, output: str, url: str) -> None:
    """Say what applying the files would do, and change nothing.

    Documents are compared field by field with what is stored. Of each deployment it says which
    revisions move, at once or by a rollout; which replicas are replaced, how many at a time and for
    how long fewer serve, by what earlier starts took; whether what is new fits into the memory that
    running replicas report; which requests of the last hour would have been admitted differently;
    and whether new rules could have fired. Last comes drift: what does not run the latest revision
    and why, and what is stored and in no file. What cannot be known is said to be unknown.
    """
    from controlplane.cli.config_files import read_files
    from controlplane.cli.local_check import check_locally
    from controlplane.cli.plan_file import write_plan
    from controlplane.cli.plan_output import plan_lines
    from controlplane.cli.planned import ask_for_plan, convert_plan

    texts = read_files(files)
    check_locally(texts)
    answer = ask_for_plan(url, texts)
    planned = convert_plan(url, answer)
    if save_to is not None:
        write_plan(save_to, texts, planned.plan)
    if output == "json":
        say_json(answer)
    else:
        for line in plan_lines(planned):
            say(line)
        if save_to is not None:
            say(f"saved: `pilothouse apply --plan {save_to}` applies exactly this")
    if check and planned.has_changes:
        raise SystemExit(ExitCode.FAILED)
