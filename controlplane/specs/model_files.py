"""A Model's files, where they are on this machine: whole, and of a kind that an engine runs.

A path that does not exist here is left alone: replicas may start on another machine, and the
operator says so where one cannot.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from controlplane import hooks
from controlplane.specs.model import Artifact, ArtifactError, ModelSpec
from controlplane.specs.problem import Problem
from controlplane.specs.references import LoadedDocument
from dataplane.artifact import ArtifactKind, artifact_kind
from dataplane.model_folder import read_model_folder
from dataplane.plugins import PluginError, PluginGroup, list_plugins, load_plugins
from dataplane.tokenizer_loading import load_tokenizer

_FolderCheck = Callable[[Path], object]


def check_model_files(loaded: LoadedDocument) -> list[Problem]:
    """Problems with the artifact and the tokenizer of a Model, each naming its file."""
    spec = loaded.document.spec
    if not isinstance(spec, ModelSpec):
        return []
    weights: list[_FolderCheck] = [read_model_folder, _ask_engines]
    fields: dict[str, tuple[Artifact | None, list[_FolderCheck]]] = {
        "artifact": (spec.artifact, [*weights, load_tokenizer]),
        "tokenizer": (spec.tokenizer, [load_tokenizer]),
    }
    return [
        loaded.source.problem(("spec", field, _place(artifact)), what)
        for field, (artifact, checks) in fields.items()
        if artifact is not None
        # What two of them find is told once.
        for what in dict.fromkeys(_find_problems(artifact, checks))
    ]


def _find_problems(artifact: Artifact, checks: list[_FolderCheck]) -> Iterator[str]:
    if artifact.url is not None:
        return
    try:
        path = Path(artifact.resolve())
    except ArtifactError:
        return
    try:
        if artifact_kind(path) is not ArtifactKind.FOLDER:
            return
    except (OSError, ValueError) as error:
        yield str(error)
        return
    for check in checks:
        try:
            check(path)
        except (OSError, ValueError) as error:
            yield str(error)


def _ask_engines(folder: Path) -> None:
    """Raises ValueError when there are engines that run folders, and none runs this one."""
    answers: list[list[str]] = [
        problems
        for plugin in list_plugins(PluginGroup.CONTROLPLANE)
        for problems in _ask(plugin.name, folder)
    ]
    if answers and all(answers):
        raise ValueError("; ".join(dict.fromkeys(what for each in answers for what in each)))


def _ask(plugin: str, folder: Path) -> list[list[str]]:
    """What a plugin says; a broken one that this model may not need says nothing."""
    try:
        plugins = load_plugins(PluginGroup.CONTROLPLANE, [plugin], hooks, hooks.PROJECT)
    except PluginError:
        return []
    answers: list[list[str]] = plugins.hook.pilothouse_check_model_folder(folder=folder)
    return answers


def _place(artifact: Artifact) -> str:
    """The key that the place is written under."""
    return "path" if artifact.path is not None else "file"
