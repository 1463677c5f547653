"""The settings that every adapter to an endpoint has, and the keys that they point to."""

import os
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

KEYS_DIRECTORY = "ENGINE_KEYS_DIR"
"""Environment variable of the gateway: the only folder that config can name a key in."""
ParameterName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]

EnvironmentEntry = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*=")]


class EndpointSettings(BaseModel):
    """How to talk to one OpenAI-compatible endpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model: str | None = Field(default=None, min_length=1)
    """The name the endpoint serves the model under; None: the first that it lists."""
    api_key_env: str | None = Field(default=None, pattern=r"^ENGINE_KEY_[A-Z0-9_]{1,64}$")
    """Environment variable of the gateway that holds the key, as ENGINE_KEY_UPSTREAM; the key
    itself is never config. No other variable can be named: who writes config must not be able
    to send whatever else the gateway knows to an address of their choice."""
    api_key_file: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$")
    """Name of a file that holds the key and nothing else, in the folder that ENGINE_KEYS_DIR
    names in the gateway's environment."""
    max_model_len: int | None = Field(default=None, gt=0)
    """Prompt plus output tokens; None: what the endpoint says, if it does."""
    max_num_seqs: int | None = Field(default=None, gt=0)
    """Requests it may be given at once; None: what the endpoint says, if it does; else the
    admission policy alone decides."""
    connect_timeout_seconds: float = Field(default=5.0, gt=0)
    read_timeout_seconds: float = Field(default=120.0, gt=0)
    """Longest silence between two chunks."""
    parameters: list[ParameterName] | None = None
    """Request parameters beyond the common ones that it takes, such as reasoning_effort; the
    gateway refuses what is not here. None: those that the engine says it takes, or else tools,
    tool_choice, parallel_tool_calls, response_format, n, logprobs, top_logprobs, logit_bias, both
    penalties and user."""

    @property
    def granted_parameters(self) -> frozenset[str]:
        """Taken in any case: other settings say so."""
        return frozenset()

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        if self.api_key_env is not None and self.api_key_file is not None:
            raise ValueError("give api_key_env or api_key_file, not both")
        return self

    def read_api_key(self) -> str | None:
        """The key, from where the settings point.

        Raises ValueError, which never shows it, when it is not there or no header could carry it.
        """
        if self.api_key_file is not None:
            where, key = f"settings.api_key_file names {self.api_key_file}", self._key_in_file()
        elif self.api_key_env is not None:
            where = f"settings.api_key_env names {self.api_key_env}"
            key = os.environ.get(self.api_key_env, "").strip()
        else:
            return None
        if not key:
            raise ValueError(
                f"{where}, and the gateway finds no key there: put it there before the gateway "
                f"starts"
            )
        if not (key.isascii() and key.isprintable()):
            raise ValueError(f"{where}, and what is there is no key: no header can carry it")
        return key

    def _key_in_file(self) -> str:
        folder = os.environ.get(KEYS_DIRECTORY)
        if not folder:
            raise ValueError(
                f"settings.api_key_file names {self.api_key_file}, and the gateway's environment "
                f"does not say in {KEYS_DIRECTORY} which folder engines' keys are in"
            )
        try:
            return (Path(folder) / (self.api_key_file or "")).read_text(errors="replace").strip()
        except OSError as error:
            raise ValueError(
                f"settings.api_key_file names {self.api_key_file}, which the gateway cannot "
                f"read in {folder}: {error.strerror}"
            ) from error


class EngineEndpointSettings(EndpointSettings):
    """How to talk to an engine that is known, and how to start one of our own.

    A Model with a url is attached to; one with weights is launched, and what begins with
    `server_` says how.
    """

    proof_seconds: float = Field(default=60.0, gt=0)
    """How long the one token may take that is generated before the endpoint counts as ready,
    whenever a gateway connects to it."""
    metrics_seconds: float = Field(default=2.0, gt=0)
    """How often its metrics are read."""
    server_executable: str | None = Field(default=None, min_length=1)
    """The server's program, by a name or path that whoever runs the machine granted in
    ENGINE_PROGRAMS, in the control plane's environment; None: by its usual name, from there or from
    PATH. Nothing else is started: config is written by people who may not run programs here."""
    server_args: list[str] = Field(default_factory=list)
    """More arguments for the server, as it names them, in full. Address, port, model and its name
    are given by Pilothouse. Others are refused unless they are known to change only how the server
    works, or are named in ENGINE_OPTIONS in the control plane's environment."""
    server_environment: list[EnvironmentEntry] = Field(default_factory=list)
    """More of the server's environment, each as NAME=value, with the same bounds as `server_args`;
    a secret does not belong here. Of the control plane's own environment a server sees what it
    needs, and no key and no database."""
