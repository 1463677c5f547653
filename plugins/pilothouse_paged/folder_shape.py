"""A model's shape from the config.json of a Hugging Face style folder. Imports no torch.

What a key means when it is absent is taken from the Llama architecture's own defaults; a key
that would change the computation in a way that is not built is refused by name.
"""

from collections.abc import Mapping
from typing import Any

from dataplane.artifact import ModelFileError
from dataplane.folder_vocabulary import read_end_token_ids
from dataplane.model_folder import ModelFolder
from pilothouse_paged.shape import ARCHITECTURE, LlamaShape

_CLASS = "LlamaForCausalLM"
_LARGEST = 2**31 - 1

# Keys that change the computation, and the values at which they do not.
_NEUTRAL_VALUES: Mapping[str, tuple[object, ...]] = {
    "quantization_config": (None,),
    "compression_config": (None,),
    "sliding_window": (None,),
    "layer_types": (None,),
    "attention_bias": (None, False),
    "mlp_bias": (None, False),
    "hidden_act": (None, "silu"),
    "num_experts": (None, 0),
    "num_local_experts": (None, 0),
    "partial_rotary_factor": (None, 1, 1.0),
    "logit_scale": (None, 1, 1.0),
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
}


def read_folder_shape(folder: ModelFolder) -> LlamaShape:
    """Raises ModelFileError for another architecture, a key that is missing or makes no sense,
    or a feature that is not built."""
    return _ConfigReader(folder).shape()


class _ConfigReader:
    def __init__(self, folder: ModelFolder) -> None:
        self._folder = folder
        self._config = folder.config

    def shape(self) -> LlamaShape:
        self._check_architecture()
        self._check_features()
        hidden_size, num_heads = self._count("hidden_size"), self._count("num_attention_heads")
        shape = LlamaShape(
            num_layers=self._count("num_hidden_layers"),
            hidden_size=hidden_size,
            intermediate_size=self._count("intermediate_size"),
            num_heads=num_heads,
            num_kv_heads=self._count("num_key_value_heads", num_heads),
            head_dim=self._count("head_dim", hidden_size // num_heads),
            vocab_size=self._count("vocab_size"),
            context_length=self._count("max_position_embeddings"),
            rope_base=self._rope_base(),
            norm_epsilon=self._number("rms_norm_eps", self._config.get("rms_norm_eps")),
            end_token_ids=read_end_token_ids(self._folder.path),
        )
        self._check_heads(shape)
        return shape

    def _check_architecture(self) -> None:
        kind, classes = self._config.get("model_type"), self._config.get("architectures")
        if kind != ARCHITECTURE:
            raise self._error(
                f"model_type is {kind!r}; the paged engine runs {ARCHITECTURE!r} only: choose "
                f"another model, or attach an engine that runs this one"
            )
        if classes not in (None, [_CLASS]):
            raise self._error(f"architectures is {classes!r}; supported is [{_CLASS!r}]")

    def _check_features(self) -> None:
        for key, neutral in _NEUTRAL_VALUES.items():
            value = self._config.get(key)
            if value not in neutral:
                supported = " or ".join("absent" if v is None else repr(v) for v in neutral[:2])
                raise self._error(
                    f"{key} is {_shown(value)}, which is not supported; supported: {supported}"
                )

    def _rope_base(self) -> float:
        """Transformers 5 keeps base and scaling in `rope_parameters`; before, they were apart."""
        base = self._config.get("rope_theta", 10000.0)
        for key in ("rope_scaling", "rope_parameters"):
            settings = self._config.get(key)
            if settings is None:
                continue
            if not isinstance(settings, dict):
                raise self._error(f"{key} is {_shown(settings)}; it must be an object or absent")
            kind = settings.get("rope_type", settings.get("type", "default"))
            if kind != "default":
                raise self._error(
                    f"{key} asks for rotary scaling {kind!r}, which is not supported; supported: "
                    f"'default'"
                )
            if settings.get("partial_rotary_factor", 1.0) != 1.0:
                raise self._error(f"{key}.partial_rotary_factor must be 1.0, or absent")
            base = settings.get("rope_theta", base)
        return self._number("rope_theta", base)

    def _check_heads(self, shape: LlamaShape) -> None:
        if shape.num_heads % shape.num_kv_heads:
            raise self._error(
                f"num_attention_heads {shape.num_heads} cannot share num_key_value_heads "
                f"{shape.num_kv_heads}"
            )
        if shape.head_dim % 2:
            raise self._error(f"head_dim is {shape.head_dim}; rotary positions need an even one")

    def _count(self, key: str, default: int | None = None) -> int:
        value = self._config.get(key)
        if value is None:
            value = default
        if value is None:
            raise self._error(f"it has no key {key}")
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _LARGEST:
            raise self._error(f"{key} is {_shown(value)}; it must be a whole number from 1 up")
        return value

    def _number(self, key: str, value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e30:
            return float(value)
        raise self._error(f"{key} is {_shown(value)}; it must be a number above 0")

    def _error(self, why: str) -> ModelFileError:
        return ModelFileError(self._folder.config_path, why)


def _shown(value: Any) -> str:
    """A value as a message shows it: never long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
