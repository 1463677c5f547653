"""The config kinds, and what every kind's spec has in common."""

import difflib
import hashlib
import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

API_VERSION = "pilothouse/v1"


class Kind(StrEnum):
    """What a config document can be."""

    MODEL = "Model"
    ENGINE_CONFIG = "EngineConfig"
    SLO_CONTRACT = "SLOContract"
    ADMISSION_POLICY = "AdmissionPolicy"
    TENANT = "Tenant"
    DEPLOYMENT = "Deployment"


# As a Deployment's own fields call them.
SHORT_KINDS = {
    Kind.ENGINE_CONFIG: "engine",
    Kind.SLO_CONTRACT: "contract",
    Kind.ADMISSION_POLICY: "policy",
}


class UnknownKindError(ValueError):
    """A kind that does not exist; the message lists those that do."""

    def __init__(self, word: str) -> None:
        near = nearest(word, [*Kind, *(plural(kind) for kind in Kind)])
        hint = f"; did you mean {near}?" if near else "."
        super().__init__(f"there is no kind {word!r}{hint} Kinds: {', '.join(Kind)}")
        self.word = word


class SpecModel(BaseModel):
    """Base of everything inside a document: frozen, strict, and unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_by_alias=True)


def plural(kind: str) -> str:
    """`Model` -> `Models`, `AdmissionPolicy` -> `AdmissionPolicies`."""
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def find_kind(word: str) -> Kind:
    """The kind that a person means: case does not matter, nor do hyphens and plural; the word
    that a Deployment has for it will do (engine, policy, contract).

    Raises UnknownKindError.
    """
    wanted = word.casefold().replace("-", "").replace("_", "")
    for kind in Kind:
        short = SHORT_KINDS.get(kind, kind)
        if wanted in (text.casefold() for each in (kind, short) for text in (each, plural(each))):
            return kind
    raise UnknownKindError(word)


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """The valid word that somebody who typed `word` most likely meant, if any is close."""
    by_folded = {candidate.casefold(): candidate for candidate in valid}
    matches = difflib.get_close_matches(word.casefold(), by_folded, n=1)
    return by_folded[matches[0]] if matches else None


def canonical_json(data: Any) -> str:
    """One text for one value: sorted keys, no spaces. Raises ValueError for NaN and infinity."""
    return json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest_of(data: Any) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(data).encode()).hexdigest()
