"""`match` of a request class: a CEL expression over the request, checked when it is applied.

The fields are declared one by one, so that a misspelt one is an error here and not a class
that silently never matches. What passes here also compiles in the gateway, which evaluates
the same fields as maps.
"""

import re
from functools import cache
from typing import Any

from cel_expr_python import cel

from controlplane.specs.kind import nearest

_MAX_LENGTH = 4096
_LOCATION = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")


class MatchError(ValueError):
    """An expression that cannot be used, with the place inside it: 1-based line and column."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(f"{what} (line {line}, column {column} of the expression)")
        self.what = what
        self.line = line
        self.column = column


@cache
def _fields() -> dict[str, Any]:
    text = cel.Type.STRING
    return {
        "tenant.name": text,
        "tenant.tier": text,
        "request.model": text,
        "request.stream": cel.Type.BOOL,
        "request.num_prompt_tokens": cel.Type.INT,
        "request.max_output_tokens": cel.Type.INT,
        "request.headers": cel.Type.Map(text, text),
    }


@cache
def _environment() -> Any:
    return cel.NewEnv(variables=_fields())


def check_match(expression: str) -> str:
    """`expression`, when it compiles to a bool. Raises MatchError."""
    if len(expression) > _MAX_LENGTH:
        raise MatchError(f"longer than {_MAX_LENGTH} characters", 1, _MAX_LENGTH)
    try:
        compiled = _environment().compile(expression)
    except RuntimeError as error:
        raise _explain(str(error)) from error
    returned = compiled.return_type()
    if returned != cel.Type.BOOL:
        raise MatchError(f"gives {returned.name()} where true or false is needed", 1, 1)
    return expression


def _explain(message: str) -> MatchError:
    located = _LOCATION.search(message)
    if located is None:
        # Such as the parser's own recursion limit, which has no place.
        return MatchError(message.split("\n")[0], 1, 1)
    line, column, what = (
        int(located[1]),
        int(located[2]),
        located[3].removesuffix(" [INVALID_ARGUMENT]"),
    )
    undeclared = _UNDECLARED.search(what)
    if undeclared:
        near = nearest(undeclared[1], _fields())
        hint = f"; did you mean {near}?" if near else "."
        what = f"there is no {undeclared[1]!r}{hint} Fields: {', '.join(_fields())}"
    return MatchError(what, line, column)
