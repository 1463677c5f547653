"""What the `pilothouse` script calls: the command, and one plain line where Ctrl-C ends it.

Nothing is imported before Ctrl-C is heard.
"""

INTERRUPTED = 130
"""As shells count it: 128 and SIGINT."""


def main() -> None:
    """Run it and exit. Ctrl-C that no command takes as an answer ends with INTERRUPTED, however
    often and whenever it comes."""
    try:
        try:
            raise SystemExit(_run())
        except KeyboardInterrupt:
            _leave()
    except KeyboardInterrupt:  # the next one came before the first was seen to
        _leave()


def _run() -> int:
    import signal

    import click

    from controlplane.cli import main as command

    code = 0
    try:
        answer = command.main(prog_name="pilothouse", standalone_mode=False)
        code = answer if isinstance(answer, int) else 0
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        click.echo("Aborted: a question was not answered.", err=True)
        code = 1
    signal.signal(signal.SIGINT, _leave)  # threads may be waited for yet
    return code


def _leave(*_: object) -> None:
    """At once: what was to be closed is closed, and nobody waits for threads any more."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import os
    import sys

    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        os.write(2, b"Interrupted.\n")
    except (OSError, ValueError):
        pass  # whoever read it is gone
    os._exit(INTERRUPTED)
