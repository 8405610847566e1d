"""Published language models from a local folder in the format of the Hugging Face hub, or from a hub cache, read by transformers; nothing is fetched.

GPT-2, GPT-Neo, GPT-NeoX (Pythia), Llama, OLMo 2 and Qwen2, in float32 whatever they are stored in. No code of a folder is run.
"""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError
from .language_model import Edit, Trace

#: Family -> its class in transformers, its blocks, its final norm, and the map that joins the heads of a block.
FAMILIES = {
    "gpt2": ("GPT2LMHeadModel", "h", "ln_f", "attn.c_proj"),
    "gpt_neo": ("GPTNeoForCausalLM", "h", "ln_f", "attn.attention.out_proj"),
    "gpt_neox": ("GPTNeoXForCausalLM", "layers", "final_layer_norm", "attention.dense"),
    "llama": ("LlamaForCausalLM", "layers", "norm", "self_attn.o_proj"),
    "olmo2": ("Olmo2ForCausalLM", "layers", "norm", "self_attn.o_proj"),
    "qwen2": ("Qwen2ForCausalLM", "layers", "norm", "self_attn.o_proj"),
}
POINTER = b"version https://git-lfs"


class Pretrained:
    """A causal language model of transformers, read as :class:`~.language_model.LanguageModel` is: B prompts of T tokens, width w, L layers, H heads.

    Attributes:
        embed: ``(V, w)``.
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

    def lens(self, hidden: Tensor) -> Tensor:
        """Logits ``W_U norm(h)`` of any hidden state ``(..., w)``."""
        return nn.functional.linear(self.norm(hidden), self._unembed)

    def trace(self, tokens: Tensor) -> Trace:
        """Residual stream before the final norm, after every block, and attention, of tokens ``(B, T)``."""
        found, last = self._run(tokens, output_hidden_states=True, output_attentions=True)
        # transformers norms its last hidden state
        return Trace(torch.stack([*found.hidden_states[:-1], last]), torch.stack(found.attentions))

    def stream(self, tokens: Tensor, heads: Edit | None = None, embed: Tensor | None = None) -> Tensor:
        """Residual stream after the last block, before the final norm, ``(B, T, w)``, with heads replaced or with another embedding ``(V, w)``."""
        return self._run(tokens, heads, embed)[1]

    def _run(
        self, tokens: Tensor, heads: Edit | None = None, embed: Tensor | None = None, **wanted: bool
    ) -> tuple[Any, Tensor]:
        """Output of transformers, and the input of the final norm."""
        positions = getattr(self.model.base_model, "wpe", None)
        if positions is not None and tokens.shape[1] > len(positions.weight):
            raise UserError(
                f"a prompt of {tokens.shape[1]} tokens for a model with {len(positions.weight)} positions",
                "Choose another model, or another probe.",
            )
        seen: list[Tensor] = []
        hooks = [self.norm.register_forward_pre_hook(lambda _, given: seen.append(given[0]))]
        for layer, block in enumerate(self.blocks if heads else ()):

            def replaced(_: nn.Module, given: tuple[Tensor, ...], layer: int = layer) -> tuple[Tensor, ...]:
                values = given[0].unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, H, T, dh)
                return (heads(layer, values).transpose(1, 2).flatten(2), *given[1:])

            hooks.append(block.get_submodule(self._joined).register_forward_pre_hook(replaced))
        inputs = {"input_ids": tokens} if embed is None else {"inputs_embeds": embed[tokens]}
        try:
            return self.model.base_model(**inputs, use_cache=False, **wanted), seen[0]
        finally:
            for hook in hooks:
                hook.remove()


def snapshot(folder: Path, revision: str | None = None) -> Path:
    """The folder that holds ``config.json``: ``folder`` itself, ``folder/revision``, or a snapshot of a hub cache (``models--OWNER--NAME``), by the name of
    a revision, by a commit's hash, or the only one there is.

    Raises:
        UserError: there is none, with the command that fetches it, into another folder where this one holds something.
    """
    if folder.is_file():
        raise UserError(f"{folder} is a file", f"Give the folder of config.json and weights, such as {folder.parent}.")
    if revision is not None and not re.fullmatch(r"\w[\w.-]*", revision):
        raise UserError(f"revision {revision!r}", "Give a name such as step4000.")
    snapshots = folder / "snapshots"
    places = [folder / revision, snapshots / revision] if revision else [folder]
    ref = folder / "refs" / (revision or "main")
    if ref.is_file():
        places.append(snapshots / ref.read_text(encoding="utf-8").strip())
    elif not revision and (known := [path for path in snapshots.glob("*") if path.is_dir()]):
        if len(known) > 1:
            raise UserError(f"{folder} holds {len(known)} snapshots", f"Choose one: --revision {known[0].name}")
        places += known
    for place in places:
        if (place / "config.json").is_file():
            return place
    option = f" --revision {revision}" if revision else ""
    place = places[0]
    to = place.with_name(f"{place.name}-fetched") if place.is_dir() and any(place.iterdir()) else place
    raise UserError(
        f"no config.json in {place}{_unread(place)}",
        f"Fetch the model where there is a network: hf download OWNER/NAME{option} --local-dir {to}",
    )


def _require_weights(place: Path) -> None:
    """Refuse a folder without weights that are read, naming those that it holds."""
    if not any(path.suffix == ".safetensors" or path.match("pytorch_model*.bin") for path in place.iterdir()):
        hint = f"Add them: hf download OWNER/NAME --include '*.safetensors' --local-dir {place}"
        raise UserError(f"no model.safetensors or pytorch_model.bin in {place}{_unread(place)}", hint)


def _unread(place: Path) -> str:
    """Weights in a folder of a format that is not read, in words; empty if there are none."""
    names = sorted(path.name for path in place.glob("*") if path.suffix in (".gguf", ".onnx", ".msgpack", ".h5"))
    return f" but {names[0]}, of a format that is not read" if names else ""


def read_pretrained(folder: Path, revision: str | None = None) -> tuple[Pretrained, Path]:
    """A model from a folder (:func:`snapshot`), and where it was read.

    Raises:
        UserError: no such folder, an unknown family, weights that are missing, damaged or of other shapes, or no transformers.
    """
    try:
        import transformers
    except ImportError as error:
        raise UserError("the package transformers is missing", "Install it: pip install 'iclbook[models]'") from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    place = snapshot(folder, revision)
    for file in place.iterdir():
        refuse_pointer(file)
    options = {"local_files_only": True, "trust_remote_code": False}
    config: Any = {}
    try:
        config = transformers.PretrainedConfig.get_config_dict(place, local_files_only=True)[0]
        family = config.get("model_type")
        if family in FAMILIES:
            _require_weights(place)
            config = transformers.AutoConfig.from_pretrained(place, **options)
            kind = getattr(transformers, FAMILIES[family][0])
            model, info = kind.from_pretrained(
                place,
                config=config,
                dtype=torch.float32,
                attn_implementation="eager",
                output_loading_info=True,
                **options,
            )
    # of many kinds; their texts are not passed on: torch's advises to unpickle whatever a file holds
    except UserError:
        raise
    except Exception as error:
        quantised = (config if isinstance(config, dict) else config.to_dict()).get("quantization_config")
        hint = "Files are damaged, or not of one checkpoint: fetch them into an empty folder, hf download OWNER/NAME --local-dir FOLDER."
        hint = (
            "Give the weights of that model that are not quantised; these need other packages." if quantised else hint
        )
        what = f"{place} is not read by transformers {transformers.__version__} ({type(error).__name__})"
        raise UserError(what, hint) from error
    if family not in FAMILIES:
        raise UserError(
            f"{place / 'config.json'} has model_type {family!r}", f"Choose a model of {', '.join(FAMILIES)}."
        )
    unexpected = [name for name in map(str, info["unexpected_keys"]) if not name.endswith("masked_bias")]
    for what, wrong in (("lack", sorted(map(str, info["missing_keys"]))), ("have an extra", sorted(unexpected))):
        if wrong:
            hint = "Give config.json and weights of one checkpoint: hf download OWNER/NAME --local-dir FOLDER, an empty one."
            raise UserError(f"the weights in {place} {what} tensor {wrong[0]}", hint)
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    about = {
        "family": config.model_type,
        "sizes": {name: getattr(config, name) for name in sizes},
        "weights": digest(model.state_dict()),
        "revision": revision,
        "transformers": transformers.__version__,
    }
    return Pretrained(model, about), place


def digest(weights: Mapping[str, Tensor]) -> str:
    """Start of the SHA-256 of all weights, by name."""
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode() + weights[name].contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def refuse_pointer(path: Path) -> None:
    """Refuse a Git LFS pointer in place of a file with a UserError."""
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise UserError(
                f"{path} is a Git LFS pointer, not the file itself",
                "Fetch the files: `git lfs pull` in that folder, or hf download OWNER/NAME --local-dir FOLDER",
            )
