"""EngineConfig: which engine runs a model, and its settings.

What settings mean is the engine plugin's business; it checks them (see
controlplane.specs.engine_settings), this only says what shape they have.
"""

from pydantic import Field, JsonValue

from controlplane.specs.kind import SpecModel


class EngineConfigSpec(SpecModel):
    """An engine plugin's name and the settings handed to it."""

    engine: str = Field(min_length=1, max_length=64, examples=["paged"])
    """Name of an engine plugin; `pilothouse plugins` lists them."""
    settings: dict[str, JsonValue] = Field(default_factory=dict, examples=[{"max_model_len": 4096}])
    """What the plugin is told; it checks them when the document is applied. `pilothouse plugins
    describe ENGINE` lists those it takes."""
