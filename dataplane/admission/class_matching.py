"""Which class takes a request: the CEL of a policy's classes, compiled once for its snapshot.

To evaluate one expression costs mostly its call, so classes that follow each other are compiled
into one list, `[match of a, match of b, ...]`, and a policy of twenty classes is decided by a few
calls. An expression that fails on a request (a header it reads is absent) does not hold, and
fails the whole of its list. Then `match of a || match of b || ...` is asked, which is true where
one of them is, whichever others fail; only where it is true are they evaluated one by one.

Only those headers are handed to the expressions that they may read, and where they read nothing
that differs from request to request (a count of tokens does), what was found is remembered.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import msgspec
from cel_expr_python import cel

from dataplane.admission.match_reads import reads_of
from dataplane.policy import ClassPolicy, TenantPolicy

_MAX_REMEMBERED = 4096
_MAX_REMEMBERED_CHARS = 256
"""Of one request's values: headers are what callers make of them."""
_TOO_LONG = "it takes too many steps"
_MAX_LISTED = 8
"""Expressions in one list: one that fails costs no more than these."""


_Values = tuple[object, ...]
"""Of a request: all that its policy's expressions read."""


class MatchRefusedError(ValueError):
    """The expression of a class that cannot be enforced."""

    def __init__(self, request_class: ClassPolicy, why: str) -> None:
        super().__init__(f"class {request_class.name}, match {request_class.match!r}: {why}")


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `match` may read of it, beside its tenant, what has no default here."""

    model: str
    stream: bool
    num_prompt_tokens: int
    max_output_tokens: int
    """Of each answer."""
    headers: Mapping[str, str]
    """Names in lower case."""
    num_sequences: int = 1
    num_bytes: int = 0
    """Of its body, in memory."""


class _Value(Protocol):
    def plain_value(self) -> Any: ...


class _Expression(Protocol):
    def eval(self, activation: Any) -> _Value: ...


@dataclass(frozen=True, slots=True)
class _Group:
    """Classes that follow each other, each with its expression."""

    classes: tuple[ClassPolicy, ...]
    expressions: tuple[_Expression, ...]
    listed: _Expression | None
    """The list of all of them; None: there is one, or a list of them would be too deep."""
    any_of: _Expression | None
    """Whether one of them holds; None as for `listed`."""

    def find(self, activation: Any) -> ClassPolicy | None:
        if self.listed is not None:
            held = _evaluate(self.listed, activation)
            if isinstance(held, list):  # an error is a text
                return _first_true(self.classes, held)
        if self.any_of is not None and _evaluate(self.any_of, activation) not in (True, _TOO_LONG):
            return None
        for request_class, expression in zip(self.classes, self.expressions, strict=True):
            if _evaluate(expression, activation) is True:
                return request_class
        return None


class ClassMatcher:
    """The classes of one policy, ready to be asked."""

    def __init__(self, classes: Sequence[ClassPolicy]) -> None:
        """Raises MatchRefusedError for an expression that does not compile, or gives no bool, in a
        class that nobody reaches as well."""
        compiled = {c.name: _compile(c) for c in classes if c.match is not None}
        self._rest = next((c for c in classes if c.match is None), None)
        asked = classes if self._rest is None else classes[: classes.index(self._rest)]
        self._groups = [
            _group(asked[start : start + _MAX_LISTED], compiled)
            for start in range(0, len(asked), _MAX_LISTED)
        ]
        self._reads = reads_of(each.match or "" for each in asked)
        self._found: dict[_Values, ClassPolicy | None] = {}

    @property
    def reads_token_counts(self) -> bool:
        """The class of a request depends on how long it is."""
        return not self._reads.fields <= {"model", "stream"}

    @property
    def num_remembered(self) -> int:
        """Kinds of requests whose class need not be looked for again."""
        return len(self._found)

    def find(self, tenant: TenantPolicy, facts: RequestFacts) -> ClassPolicy | None:
        """The first class that takes the request, or None."""
        if not self._groups:
            return self._rest
        headers = self._reads.select(facts.headers)
        if not self._reads.is_told_by_few_values:
            return self._ask(tenant, facts, headers)
        values = (*self._pick(tenant), facts.model, facts.stream, *headers.items())
        if values in self._found:
            return self._found[values]
        found = self._ask(tenant, facts, headers)
        if sum(map(len, headers.values())) <= _MAX_REMEMBERED_CHARS:
            if len(self._found) >= _MAX_REMEMBERED:
                self._found.clear()
            self._found[values] = found
        return found

    def _pick(self, tenant: TenantPolicy) -> _Values:
        """What is read of a tenant, which many may have in common."""
        reads = self._reads.tenant
        return (tenant.name if "name" in reads else None, tenant.tier if "tier" in reads else None)

    def _ask(
        self, tenant: TenantPolicy, facts: RequestFacts, headers: Mapping[str, str]
    ) -> ClassPolicy | None:
        activation = _environment().Activation(data=_variables(tenant, facts, headers))
        for group in self._groups:
            found = group.find(activation)
            if found is not None:
                return found
        return self._rest


def _evaluate(expression: _Expression, activation: Any) -> Any:
    """What it comes to; a text where it fails on this request, which is no bool."""
    try:
        return expression.eval(activation).plain_value()
    except RuntimeError:  # more steps than CEL takes for one request: of many headers, say
        return _TOO_LONG


def _first_true(classes: Sequence[ClassPolicy], held: Sequence[Any]) -> ClassPolicy | None:
    for request_class, value in zip(classes, held, strict=True):
        if value is True:
            return request_class
    return None


@cache
def _environment() -> Any:
    return cel.NewEnv(
        variables={
            "tenant": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
            "request": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
        }
    )


def _group(classes: Sequence[ClassPolicy], compiled: Mapping[str, _Expression]) -> _Group:
    return _Group(
        classes=tuple(classes),
        expressions=tuple(compiled[each.name] for each in classes),
        listed=_compile_together(classes, "[{}]", ", "),
        any_of=_compile_together(classes, "{}", " || "),
    )


def _compile_together(
    classes: Sequence[ClassPolicy], written: str, between: str
) -> _Expression | None:
    if len(classes) < 2:
        return None
    # A line end after each: a comment in it must not swallow what follows.
    joined = between.join(f"({each.match}\n)" for each in classes)
    try:
        together: _Expression = _environment().compile(written.format(joined))
    except RuntimeError:  # each compiles by itself, and a level more is one too many
        return None
    return together


def _compile(request_class: ClassPolicy) -> _Expression:
    try:
        expression = _environment().compile(request_class.match)
    except RuntimeError as error:
        raise MatchRefusedError(request_class, str(error)) from error
    returned = expression.return_type()
    if returned not in (cel.Type.BOOL, cel.Type.DYN):
        raise MatchRefusedError(request_class, f"gives {returned.name()}, and must give a bool")
    compiled: _Expression = expression
    if _evaluate(compiled, _environment().Activation(data=_NOBODY)) == _TOO_LONG:
        raise MatchRefusedError(request_class, f"{_TOO_LONG} for any request")
    return compiled


def _variables(
    tenant: TenantPolicy, facts: RequestFacts, headers: Mapping[str, str]
) -> Mapping[str, Any]:
    """What an expression may read."""
    return {
        "tenant": {"name": tenant.name, "tier": tenant.tier},
        "request": {
            "model": facts.model,
            "stream": facts.stream,
            "num_prompt_tokens": facts.num_prompt_tokens,
            "max_output_tokens": facts.max_output_tokens,
            "headers": headers,
        },
    }


_NOBODY = _variables(
    TenantPolicy(name="", tier=""),
    RequestFacts(model="", stream=False, num_prompt_tokens=0, max_output_tokens=0, headers={}),
    {},
)
"""A request as small as one may be."""
