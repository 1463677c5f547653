"""What the `pilothouse` script calls: the command, and one plain line where Ctrl-C ends it.

The script imports this module alone, so Ctrl-C is heard as it is imported, before all else: by the
built-in `_signal`, since `signal` itself is Python that takes its time. What Python does before,
as it starts, is not ours.
"""

import _signal  # type: ignore[import-not-found]  # built in, and no stub tells of it
import os
import sys

INTERRUPTED = 130
"""As shells count it: 128 and SIGINT."""


def _leave(*_: object) -> None:
    """At once: what was to be closed is closed, and nobody waits for threads any more."""
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        os.write(2, b"Interrupted.\n")
    except (OSError, ValueError):
        pass  # whoever read it is gone
    os._exit(INTERRUPTED)


def _hear(by: object) -> None:
    """Ctrl-C by `by` from here on. Whoever ignores it, as shells let jobs in their background do,
    is left alone."""
    if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:
        _signal.signal(_signal.SIGINT, by)


if sys.argv[0].rpartition(os.sep)[2].startswith("pilothouse"):
    _hear(_leave)  # nothing is open yet that was to be closed


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
    _hear(_leave)
    import click

    from controlplane.cli import main as command
    from controlplane.cli.standard_streams import LostOutputError, take_streams

    code, output = 0, None
    _hear(_signal.default_int_handler)  # commands close what they opened
    try:
        output = take_streams()
        answer = command.main(prog_name="pilothouse", standalone_mode=False)
        code = answer if isinstance(answer, int) else 0
    except LostOutputError:
        pass  # told below, as one that a command took for a failure of its own
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        click.echo("Aborted: a question was not answered.", err=True)
        code = 1
    if output is not None and output.loss is not None:
        click.echo(f"Error: {output.loss.strerror}", err=True)
        code = code or 1
    _hear(_leave)  # threads may be waited for yet
    return code
