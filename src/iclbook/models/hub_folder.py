"""Weights of published language models, from a local folder in the format of the Hugging Face hub (``config.json`` and safetensors); nothing is fetched.

Families: GPT-2, GPT-NeoX (Pythia) and OLMo 2. Weights are read as float32, whatever they are stored in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import UserError
from .language_model import LanguageModel

Weights = Mapping[str, Tensor]
#: Buffers that old checkpoints hold beside weights.
BUFFERS = (".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".inv_freq")
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "silu": "silu"}


class Pretrained(NamedTuple):
    """A model with its origin.

    Attributes:
        model: in float32, for evaluation.
        folder: where it was read.
        about: family, sizes and a digest of the weights, as JSON holds them.
    """

    model: LanguageModel
    folder: Path
    about: dict[str, Any]


def snapshot(folder: Path, revision: str | None = None) -> Path:
    """The folder that holds ``config.json``: ``folder`` itself, ``folder/revision``, or the snapshot of a hub cache (``models--OWNER--NAME``).

    Raises:
        UserError: there is none, with the command that fetches it.
    """
    if revision is not None and (
        not revision or revision.startswith(("/", ".")) or ".." in Path(revision).parts
    ):
        raise UserError(f"revision {revision!r}", "Give a name such as step4000.")
    ref = folder / "refs" / (revision or "main")
    places = [folder / revision] if revision else [folder]
    if ref.is_file():
        places.append(folder / "snapshots" / ref.read_text(encoding="utf-8").strip())
    for place in places:
        if (place / "config.json").is_file():
            return place
    option = f" --revision {revision}" if revision else ""
    raise UserError(
        f"no config.json in {places[-1]}",
        f"Fetch the model where there is a network: hf download OWNER/NAME{option} --local-dir {places[0]}",
    )


def read_pretrained(folder: Path, revision: str | None = None) -> Pretrained:
    """A model from a folder.

    Args:
        folder: see :func:`snapshot`.
        revision: a checkpoint's name, such as ``step4000``.

    Raises:
        UserError: no such folder, an unknown family or option, weights that are missing, damaged or of other shapes.
    """
    place = snapshot(folder, revision)
    config = _config(place)
    kind = config.get("model_type")
    if kind not in _FAMILIES:
        raise UserError(
            f"{place / 'config.json'}: model_type {kind!r}", f"Give one of: {', '.join(_FAMILIES)}."
        )
    options, named = _FAMILIES[kind]
    try:
        sizes = options(config)
        with torch.device("meta"):
            model = LanguageModel(**sizes)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{place / 'config.json'}: {type(error).__name__} {error}", "Fetch the file anew."
        ) from error
    weights = _weights(place)
    try:
        found = named(weights, sizes)
    except (KeyError, RuntimeError, IndexError) as error:
        raise UserError(
            f"weights in {place} are not those of its config.json ({error})", "Fetch the folder anew."
        ) from error
    _fill(model, found, place)
    about = {"family": kind, "sizes": sizes, "weights": digest(found), "revision": revision}
    return Pretrained(model.eval().requires_grad_(False), place, about)


def digest(weights: Weights) -> str:
    """Start of the SHA-256 of all weights, by name."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode() + weights[name].contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def _config(place: Path) -> dict[str, Any]:
    path = place / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read", "Fetch the file anew.") from error
    if not isinstance(config, dict):
        raise UserError(f"{path} holds no configuration", "Fetch the file anew.")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        raise UserError(
            f"{path}: scaled rotary positions", "Choose a model with plain ones; these are not known."
        )
    return config | {"rope": rope}


def _weights(place: Path) -> dict[str, Tensor]:
    """All tensors of a folder in float32, without buffers."""
    index = [
        p
        for name in ("model.safetensors", "pytorch_model.bin")
        if (p := place / f"{name}.index.json").is_file()
    ]
    single = [p for name in ("model.safetensors", "pytorch_model.bin") if (p := place / name).is_file()]
    if not index and not single:
        raise UserError(
            f"no model.safetensors in {place}", "Fetch it too: hf download fetches whole folders."
        )
    try:
        files = single[:1] or sorted(
            {place / Path(name).name for name in json.loads(index[0].read_text())["weight_map"].values()}
        )
        found: dict[str, Tensor] = {}
        for file in files:
            found |= _read(file)
    except UserError:
        raise
    except Exception as error:  # truncated, pickled or not there: every reader has errors of its own
        raise UserError(f"weights in {place} cannot be read ({error})", "Fetch the folder anew.") from error
    return {k: v.float() for k, v in found.items() if not k.endswith(BUFFERS)}


def _read(file: Path) -> dict[str, Tensor]:
    if file.suffix == ".bin":
        return torch.load(file, map_location="cpu", weights_only=True)
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise UserError(
            "the package safetensors is missing", "Install it: pip install safetensors"
        ) from error
    return load_file(file)


def _fill(model: LanguageModel, found: Weights, place: Path) -> None:
    """Put weights in place of the parameters."""
    wanted = {name: tuple(p.shape) for name, p in model.named_parameters()}
    given = {name: tuple(p.shape) for name, p in found.items()}
    wrong = sorted(name for name in wanted.keys() | given.keys() if wanted.get(name) != given.get(name))
    if wrong:
        raise UserError(
            f"weights in {place} are not those of its config.json (such as {wrong[0]}: {given.get(wrong[0])} for {wanted.get(wrong[0])})",
            "Fetch the folder anew.",
        )
    model.load_state_dict(dict(found), assign=True)


class _Named:
    """Tensors by their published names; every one must be asked for."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        self._weights = {k.removeprefix(prefix): v for k, v in weights.items()}

    def __call__(self, name: str) -> Tensor:
        return self._weights.pop(name)

    def layers(self, n: int, name: str) -> Tensor:
        """``name`` with the layer's number for ``{}``, stacked."""
        return torch.stack([self(name.format(i)) for i in range(n)])

    def pairs(self, n: int, names: Mapping[str, str]) -> dict[str, Tensor]:
        """Weights and biases of all layers: ours by name from theirs."""
        found = {}
        for ours, theirs in names.items():
            found[ours] = self.layers(n, f"{theirs}.weight")
            found[f"{ours}_bias"] = self.layers(n, f"{theirs}.bias")
        return found

    def done(self, *left: str) -> None:
        """Nothing but ``left`` may remain."""
        rest = sorted(self._weights.keys() - set(left))
        if rest:
            raise KeyError(f"{rest[0]} is not known")


# -- GPT-2 -------------------------------------------------------------------------------------------------------------


def _gpt2_options(c: dict[str, Any]) -> dict[str, Any]:
    if c.get("scale_attn_by_inverse_layer_idx") or not c.get("scale_attn_weights", True):
        raise ValueError("attention scaled by the layer")
    return {
        "vocabulary": c["vocab_size"],
        "width": c["n_embd"],
        "n_layers": c["n_layer"],
        "n_heads": c["n_head"],
        "hidden": c.get("n_inner") or 4 * c["n_embd"],
        "positions": c["n_positions"],
        "activation": _ACTIVATIONS[c.get("activation_function", "gelu_new")],
        "tied": c.get("tie_word_embeddings", True),
        "eps": c.get("layer_norm_epsilon", 1e-5),
    }


def _gpt2_weights(weights: Weights, s: dict[str, Any]) -> dict[str, Tensor]:
    """GPT-2 stores linear maps as (inputs, outputs)."""
    take = _Named(weights, "transformer.")
    names = {"qkv": "attn.c_attn", "out": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}
    found = take.pairs(
        s["n_layers"],
        {k: f"h.{{}}.{v}" for k, v in (names | {"norm1": "ln_1", "norm2": "ln_2"}).items()},
    )
    found |= {k: found[k].transpose(1, 2).contiguous() for k in names}
    found |= {"embed": take("wte.weight"), "positions": take("wpe.weight")}
    found |= {"norm": take("ln_f.weight"), "norm_bias": take("ln_f.bias")}
    if not s["tied"]:
        found["unembed"] = take("lm_head.weight")
    take.done("lm_head.weight")
    return found


# -- GPT-NeoX ----------------------------------------------------------------------------------------------------------


def _neox_options(c: dict[str, Any]) -> dict[str, Any]:
    rope = c["rope"]
    if not c.get("attention_bias", True):
        raise ValueError("attention without biases")
    return {
        "vocabulary": c["vocab_size"],
        "width": c["hidden_size"],
        "n_layers": c["num_hidden_layers"],
        "n_heads": c["num_attention_heads"],
        "hidden": c["intermediate_size"],
        "rotary": rope.get("partial_rotary_factor", c.get("rotary_pct", 0.25)),
        "theta": rope.get("rope_theta", c.get("rope_theta", c.get("rotary_emb_base", 10_000))),
        "parallel": c.get("use_parallel_residual", True),
        "activation": _ACTIVATIONS[c.get("hidden_act", "gelu")],
        "tied": c.get("tie_word_embeddings", False),
        "eps": c.get("layer_norm_eps", 1e-5),
    }


def _neox_weights(weights: Weights, s: dict[str, Any]) -> dict[str, Tensor]:
    """GPT-NeoX stores query, key and value head by head."""
    take = _Named(weights, "gpt_neox.")
    names = {
        "qkv": "attention.query_key_value",
        "out": "attention.dense",
        "up": "mlp.dense_h_to_4h",
        "down": "mlp.dense_4h_to_h",
        "norm1": "input_layernorm",
        "norm2": "post_attention_layernorm",
    }
    found = take.pairs(s["n_layers"], {k: f"layers.{{}}.{v}" for k, v in names.items()})
    for name in ("qkv", "qkv_bias"):
        heads = found[name].unflatten(1, (s["n_heads"], 3, -1))  # (L, H, 3, dh, ...)
        found[name] = heads.transpose(1, 2).flatten(1, 3).contiguous()
    found |= {"embed": take("embed_in.weight")}
    found |= {"norm": take("final_layer_norm.weight"), "norm_bias": take("final_layer_norm.bias")}
    if not s["tied"]:
        found["unembed"] = take("embed_out.weight")
    take.done("embed_out.weight")
    return found


# -- OLMo 2 ------------------------------------------------------------------------------------------------------------


def _olmo2_options(c: dict[str, Any]) -> dict[str, Any]:
    if c.get("attention_bias"):
        raise ValueError("attention with biases")
    return {
        "vocabulary": c["vocab_size"],
        "width": c["hidden_size"],
        "n_layers": c["num_hidden_layers"],
        "n_heads": c["num_attention_heads"],
        "n_kv_heads": c.get("num_key_value_heads") or c["num_attention_heads"],
        "hidden": c["intermediate_size"],
        "theta": c["rope"].get("rope_theta", c.get("rope_theta", 10_000.0)),
        "post_norm": True,
        "rms": True,
        "qk_norm": True,
        "gated": True,
        "activation": _ACTIVATIONS[c.get("hidden_act", "silu")],
        "biases": False,
        "tied": c.get("tie_word_embeddings", False),
        "eps": c.get("rms_norm_eps", 1e-5),
    }


def _olmo2_weights(weights: Weights, s: dict[str, Any]) -> dict[str, Tensor]:
    take, n = _Named(weights, "model."), s["n_layers"]
    qkv = [take.layers(n, f"layers.{{}}.self_attn.{part}_proj.weight") for part in "qkv"]
    fed = [take.layers(n, f"layers.{{}}.mlp.{part}_proj.weight") for part in ("gate", "up")]
    found = {
        "qkv": torch.cat(qkv, 1),
        "out": take.layers(n, "layers.{}.self_attn.o_proj.weight"),
        "up": torch.cat(fed, 1),
        "down": take.layers(n, "layers.{}.mlp.down_proj.weight"),
        "norm1": take.layers(n, "layers.{}.post_attention_layernorm.weight"),
        "norm2": take.layers(n, "layers.{}.post_feedforward_layernorm.weight"),
        "q_norm": take.layers(n, "layers.{}.self_attn.q_norm.weight"),
        "k_norm": take.layers(n, "layers.{}.self_attn.k_norm.weight"),
        "embed": take("embed_tokens.weight"),
        "norm": take("norm.weight"),
    }
    if not s["tied"]:
        found["unembed"] = take("lm_head.weight")
    take.done("lm_head.weight")
    return found


_Options = Callable[[dict[str, Any]], dict[str, Any]]
_Reader = Callable[[Weights, dict[str, Any]], dict[str, Tensor]]
_FAMILIES: dict[str, tuple[_Options, _Reader]] = {
    "gpt2": (_gpt2_options, _gpt2_weights),
    "gpt_neox": (_neox_options, _neox_weights),
    "olmo2": (_olmo2_options, _olmo2_weights),
}
