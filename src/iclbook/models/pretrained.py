"""Published language models from a local folder in the format of the Hugging Face hub, or from a hub cache, read with transformers; nothing is fetched.

GPT-2, GPT-NeoX (Pythia) and OLMo 2, in float32 whatever they are stored in. Weights are safetensors, or pickles of tensors alone; no code of a
folder is run.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError
from .language_model import Edit, Trace

#: Family -> its class in transformers, its blocks, its final norm, and the map that joins the heads of a block.
FAMILIES = {
    "gpt2": ("GPT2LMHeadModel", "h", "ln_f", "attn.c_proj"),
    "gpt_neox": ("GPTNeoXForCausalLM", "layers", "final_layer_norm", "attention.dense"),
    "olmo2": ("Olmo2ForCausalLM", "layers", "norm", "self_attn.o_proj"),
}
#: Buffers that old checkpoints hold beside weights.
BUFFERS = (".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".inv_freq")
POINTER = b"version https://git-lfs"
FETCH = "Fetch the folder anew: hf download OWNER/NAME --local-dir FOLDER"


class Pretrained:
    """A causal language model of transformers, read as :class:`~.language_model.LanguageModel` is: B prompts of T tokens, width w, L layers, H heads.

    Attributes:
        embed: ``(V, w)``; ``tied`` whether it is the unembedding too.
        about: family, sizes and a digest of the weights, as JSON holds them.
    """

    def __init__(self, model: Any, about: dict[str, Any]) -> None:
        self.model, self.about = model.eval().requires_grad_(False), about
        config, base = model.config, model.base_model
        _, blocks, norm, self._joined = FAMILIES[config.model_type]
        self.blocks, self.norm = getattr(base, blocks), getattr(base, norm)
        self.n_layers, self.n_heads = config.num_hidden_layers, config.num_attention_heads
        self.width, self.vocabulary = config.hidden_size, config.vocab_size
        self.embed = model.get_input_embeddings().weight
        self._unembed = model.get_output_embeddings().weight
        self.tied = self._unembed is self.embed

    def lens(self, hidden: Tensor, unembed: Tensor | None = None) -> Tensor:
        """Logits ``W_U norm(h)`` of any hidden state ``(..., w)``, with another unembedding ``(V, w)`` if one is given."""
        return nn.functional.linear(self.norm(hidden), self._unembed if unembed is None else unembed)

    def trace(self, tokens: Tensor) -> Trace:
        """Residual stream before the final norm, after every block, and attention, of tokens ``(B, T)``."""
        with self._last() as last:
            found = self._run(tokens, output_hidden_states=True, output_attentions=True)
        hidden = [*found.hidden_states[:-1], last[0]]  # transformers norms its last entry
        return Trace(torch.stack(hidden), torch.stack(found.attentions))

    def stream(self, tokens: Tensor, heads: Edit | None = None, embed: Tensor | None = None) -> Tensor:
        """Residual stream after the last block, before the final norm, ``(B, T, w)``, with heads replaced or with another embedding ``(V, w)``."""
        with self._last() as last, self._edited(heads):
            self._run(tokens, embed)
        return last[0]

    def _run(self, tokens: Tensor, embed: Tensor | None = None, **wanted: bool) -> Any:
        positions = getattr(self.model.base_model, "wpe", None)
        if positions is not None and tokens.shape[1] > len(positions.weight):
            raise UserError(
                f"a prompt of {tokens.shape[1]} tokens for a model with {len(positions.weight)} positions",
                "Choose another model, or another probe; --lines shortens the prompts of `alignment`.",
            )
        given = {"input_ids": tokens} if embed is None else {"inputs_embeds": embed[tokens]}
        return self.model.base_model(**given, use_cache=False, **wanted)

    @contextmanager
    def _last(self) -> Iterator[list[Tensor]]:
        """What the final norm is given."""
        seen: list[Tensor] = []
        handle = self.norm.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        try:
            yield seen
        finally:
            handle.remove()

    @contextmanager
    def _edited(self, edit: Edit | None) -> Iterator[None]:
        """Heads' outputs ``(B, H, T, dh)`` of every block replaced before they are joined."""
        handles = []

        def hook(layer: int) -> Callable[..., Any]:
            def replaced(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
                heads = given[0].unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                return (edit(layer, heads).transpose(1, 2).flatten(2), *given[1:])

            return replaced

        for layer, block in enumerate(self.blocks if edit else ()):
            handles.append(block.get_submodule(self._joined).register_forward_pre_hook(hook(layer)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def snapshot(folder: Path, revision: str | None = None) -> Path:
    """The folder that holds ``config.json``: ``folder`` itself, ``folder/revision``, or a snapshot of a hub cache (``models--OWNER--NAME``), by the name of
    a revision, by a commit's hash, or the only one there is.

    Raises:
        UserError: there is none, with the command that fetches it.
    """
    if revision is not None and (not revision or revision.startswith(("/", ".")) or ".." in Path(revision).parts):
        raise UserError(f"revision {revision!r}", "Give a name such as step4000.")
    places = [folder / revision, folder / "snapshots" / revision] if revision else [folder]
    ref = folder / "refs" / (revision or "main")
    if ref.is_file():
        places.append(folder / "snapshots" / ref.read_text(encoding="utf-8").strip())
    elif not revision:
        alone = [path for path in (folder / "snapshots").glob("*") if path.is_dir()]
        places += alone if len(alone) == 1 else []
        if len(alone) > 1:
            raise UserError(f"{folder} holds {len(alone)} snapshots", f"Choose one: --revision {alone[0].name}")
    for place in places:
        if (place / "config.json").is_file():
            return place
    option = f" --revision {revision}" if revision else ""
    raise UserError(
        f"no config.json in {places[0]}",
        f"Fetch the model where there is a network: hf download OWNER/NAME{option} --local-dir {places[0]}",
    )


def read_pretrained(folder: Path, revision: str | None = None) -> tuple[Pretrained, Path]:
    """A model from a folder (:func:`snapshot`), and where it was read.

    Raises:
        UserError: no such folder, an unknown family or option, weights that are missing, damaged or of other shapes, or no transformers.
    """
    try:
        import transformers
    except ImportError as error:
        raise UserError("the package transformers is missing", "Install it: pip install 'iclbook[models]'") from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    place = snapshot(folder, revision)
    config = _config(place)
    weights = _weights(place)
    try:
        options = transformers.AutoConfig.for_model(**config)
        _compare_sizes(options, weights, place)
        loaded, info = getattr(transformers, FAMILIES[options.model_type][0]).from_pretrained(
            None,
            config=options,
            state_dict=weights,
            dtype=torch.float32,
            attn_implementation="eager",
            output_loading_info=True,
        )
    except UserError:
        raise
    except Exception as error:  # whatever transformers finds wrong with a configuration
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"{place / 'config.json'} is not read by transformers {transformers.__version__} ({why[0][:120]})",
            "Install the version of transformers that the model asks for, or choose another model.",
        ) from error
    wrong = sorted({*map(str, info["missing_keys"]), *map(str, info["mismatched_keys"])})
    tied = options.tie_word_embeddings and ("lm_head.weight", "embed_out.weight")
    wrong = [name for name in wrong if name not in (tied or ())]
    rest = [name for name in map(str, info["unexpected_keys"]) if not name.endswith(BUFFERS)]
    if wrong or rest:
        there = rest[0] if rest else next(iter(sorted(weights)), "nothing")
        raise UserError(
            f"weights in {place} are not those of its config.json (such as {(wrong or rest)[0]}; there is {there})",
            "Give the folder of one checkpoint, its config.json and its weights together.",
        )
    about = {
        "family": options.model_type,
        "sizes": {
            k: getattr(options, k) for k in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
        },
        "weights": digest(weights),
        "revision": revision,
        "transformers": transformers.__version__,
    }
    return Pretrained(loaded, about), place


def digest(weights: Mapping[str, Tensor]) -> str:
    """Start of the SHA-256 of all weights, by name."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode() + weights[name].contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def refuse_pointer(path: Path) -> None:
    """Refuse a Git LFS pointer in place of a file.

    Raises:
        UserError: it is one.
    """
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise UserError(
                f"{path} is a Git LFS pointer, not the file itself",
                "Fetch the files: `git lfs pull` in that folder, or hf download OWNER/NAME --local-dir FOLDER",
            )


def _config(place: Path) -> dict[str, Any]:
    path = place / "config.json"
    refuse_pointer(path)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read", FETCH) from error
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind not in FAMILIES:
        raise UserError(f"{path}: model_type {kind!r} is not read here", f"Give a model of: {', '.join(FAMILIES)}.")
    return {
        name: value
        for name, value in config.items()
        if name not in ("auto_map", "quantization_config", "dtype", "torch_dtype")
    }


def _weights(place: Path) -> dict[str, Tensor]:
    """All tensors of a folder in float32, without buffers and without the prefixes of wrapped models."""
    files = _files(place)
    found: dict[str, Tensor] = {}
    for file in files:
        refuse_pointer(file)
        found |= _tensors(file)
    if not found or not all(isinstance(value, Tensor) for value in found.values()):
        held = ", ".join(sorted(map(str, found))[:4]) or "nothing"
        raise UserError(
            f"{files[0]} holds no weights ({held})", "Save the model's state_dict alone, or as safetensors."
        )
    names = {re.sub(r"^(_orig_mod\.|module\.)+", "", name): value for name, value in found.items()}
    return {k: v.float() for k, v in names.items() if not k.endswith(BUFFERS)}


def _files(place: Path) -> list[Path]:
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (place / name).is_file():
            return [place / name]
        index = place / f"{name}.index.json"
        if index.is_file():
            refuse_pointer(index)
            try:
                listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            except (OSError, ValueError, KeyError, AttributeError) as error:
                raise UserError(f"{index} cannot be read", FETCH) from error
            return sorted({place / Path(file).name for file in listed})
    raise UserError(f"no model.safetensors in {place}", "Fetch it too: hf download fetches whole folders.")


def _tensors(file: Path) -> dict[str, Tensor]:
    """Of one file; training checkpoints that hold the weights under ``model`` or ``state_dict`` are looked into."""
    if not file.is_file():
        raise UserError(f"{file} is missing", FETCH)
    if file.suffix != ".bin":
        from safetensors.torch import load_file

        try:
            return load_file(file)
        except Exception as error:  # the package raises bare exceptions
            raise UserError(f"{file} is damaged ({error})", FETCH) from error
    try:
        held = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's text advises to unpickle whatever the file holds: it is not passed on
        raise UserError(
            f"{file} is damaged, or holds more than tensors and is not unpickled",
            "Fetch the weights as safetensors, or save the model's state_dict alone.",
        ) from error
    for name in ("state_dict", "model_state_dict", "model"):
        if isinstance(held, dict) and isinstance(held.get(name), dict):
            held = held[name]
    return {k: v for k, v in held.items() if v is not None} if isinstance(held, dict) else {}


def _compare_sizes(config: Any, weights: Mapping[str, Tensor], place: Path) -> None:
    """Refuse sizes that the weights do not have, before memory is taken for them."""
    layers = {int(found[1]) for name in weights if (found := re.search(r"(?:^|\.)(?:h|layers)\.(\d+)\.", name))}
    shapes = {size for tensor in weights.values() for size in tensor.shape}
    for name, there in (("num_hidden_layers", {len(layers)}), ("hidden_size", shapes), ("vocab_size", shapes)):
        if getattr(config, name) not in there:
            raise UserError(
                f"weights in {place} are not those of its config.json ({name} {getattr(config, name)} is none of theirs)",
                "Give the folder of one checkpoint, its config.json and its weights together.",
            )
