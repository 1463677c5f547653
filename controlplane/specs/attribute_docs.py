"""The texts below the attributes of a class, read from its source: Python does not keep them."""

import ast
import inspect
import itertools
import textwrap
from collections.abc import Mapping
from functools import cache

from controlplane.specs.kind import SpecModel


def docs_of_fields(model: type[SpecModel]) -> Mapping[str, str]:
    """Of its fields, those that it inherits included."""
    docs: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, SpecModel):
            docs |= docs_of_attributes(each)
    return docs


@cache
def docs_of_attributes(owner: type) -> Mapping[str, str]:
    """The texts below the attributes of a class."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(definition, ast.ClassDef)
    docs = {}
    for before, after in itertools.pairwise(definition.body):
        match before, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                docs[name] = in_one_line(text)
    return docs


def in_one_line(text: str | None) -> str:
    """A docstring without its line ends and indents; empty for none."""
    return " ".join((text or "").split())
