"""The language model equals `transformers` on tiny random checkpoints of each family, and its reader refuses what it does not know in one line."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch

from iclbook.errors import UserError
from iclbook.models.hub_folder import read_pretrained, snapshot
from iclbook.models.language_model import LanguageModel

transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")
LAYERS, HEADS, WIDTH, VOCABULARY = 3, 4, 32, 61
COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
SIZES = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 40,
}
CONFIGS = {
    "gpt2": lambda: transformers.GPT2Config(
        n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=24, **COMMON
    ),
    "pythia": lambda: transformers.GPTNeoXConfig(**SIZES, **COMMON),
    "neox-in-turn": lambda: transformers.GPTNeoXConfig(use_parallel_residual=False, **SIZES, **COMMON),
    "olmo2": lambda: transformers.Olmo2Config(**SIZES, **COMMON),
    "olmo2-shared-keys": lambda: transformers.Olmo2Config(
        num_key_value_heads=2, tie_word_embeddings=True, **SIZES, **COMMON
    ),
}


def saved(family: str, folder: Path):
    """A model of `transformers` with random weights, gains and biases, saved in the hub's format."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        CONFIGS[family](), attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        for p in model.parameters():  # at the usual start attention is nearly uniform, which hides mistakes
            p.normal_(0, 0.3)
    model.save_pretrained(folder)
    return model


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (2, 17), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", CONFIGS)
def test_logits_hidden_states_and_attentions_equal_those_of_transformers(family, tmp_path, tokens):
    theirs = saved(family, tmp_path)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = theirs(tokens, output_hidden_states=True, output_attentions=True)
    ours = read_pretrained(tmp_path).model
    trace = ours.trace(tokens)
    assert trace.hidden.shape == (LAYERS + 1, 2, 17, WIDTH)
    assert trace.attention.shape == (LAYERS, 2, HEADS, 17, 17)
    # relative to the largest entry; the last of their hidden states is behind the final norm
    for mine, other in [
        (ours(tokens), want.logits),
        (ours.lens(trace.hidden[-1]), want.logits),
        *zip(trace.hidden[:-1], want.hidden_states, strict=False),
        *zip(trace.attention, want.attentions, strict=True),
    ]:
        assert (mine - other).abs().max() < 1e-5 * other.abs().max()


def test_the_comparison_notices_a_wrong_option(tmp_path, tokens):
    theirs = saved("pythia", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"use_parallel_residual": False}))
    ours = read_pretrained(tmp_path).model
    with torch.no_grad():
        assert (ours(tokens) - theirs(tokens).logits).abs().max() > 1e-2


@pytest.mark.parametrize("family", ["gpt2", "pythia"])
def test_older_layouts_read_the_same(family, tmp_path, tokens):
    """Half precision, pickled weights, names without prefix, buffers beside weights, and settings under their former names."""
    saved(family, tmp_path)
    want = read_pretrained(tmp_path).model(tokens)
    weights = safetensors.load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    torch.save(
        {k.removeprefix("transformer."): v for k, v in weights.items()} | {"h.0.attn.bias": torch.ones(1)},
        tmp_path / "pytorch_model.bin",
    )
    config = json.loads((tmp_path / "config.json").read_text())
    rope = config.pop("rope_parameters", None) or {}
    if rope:
        config |= {"rotary_pct": rope["partial_rotary_factor"], "rotary_emb_base": rope["rope_theta"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert torch.equal(read_pretrained(tmp_path).model(tokens), want)
    torch.save({k: v.half() for k, v in weights.items()}, tmp_path / "pytorch_model.bin")
    assert (read_pretrained(tmp_path).model(tokens) - want).abs().max() < 0.02 * want.abs().max()


def test_sharded_weights_and_a_hub_cache(tmp_path, tokens):
    cache = tmp_path / "models--a--b"
    place = cache / "snapshots" / "0123"
    theirs = saved("olmo2", place)
    (cache / "refs").mkdir()
    (cache / "refs" / "step4000").write_text("0123")
    whole = read_pretrained(cache, "step4000")
    assert whole.folder == place
    (place / "model.safetensors").unlink()
    theirs.save_pretrained(place, max_shard_size="20kB")
    assert (place / "model.safetensors.index.json").is_file()
    again = read_pretrained(cache, "step4000")
    assert again.about == whole.about
    assert torch.equal(again.model(tokens), whole.model(tokens))


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _configure(**changes: object):
    def change(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))

    return change


def _pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"x": Path("/")}, folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: (folder / "config.json").unlink(), "hf download"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot be read"),
        (lambda folder: (folder / "config.json").write_text("[]"), "no configuration"),
        (_configure(model_type="llama"), "gpt2, gpt_neox, olmo2"),
        (_configure(num_hidden_layers=4), "not those of its config"),
        (_configure(num_hidden_layers=2), "is not known"),
        (_configure(intermediate_size=41), "not those of its config"),
        (_configure(hidden_size="wide"), "Fetch the file anew"),
        (_configure(rope_scaling={"type": "yarn"}, rope_parameters=None), "scaled rotary"),
        (_configure(hidden_act="relu6"), "Fetch the file anew"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no model.safetensors"),
        (_truncate, "cannot be read"),
        (_pickle, "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said_in_one_line(spoil, says, tmp_path):
    saved("pythia", tmp_path)
    spoil(tmp_path)
    with pytest.raises(UserError, match=says) as caught:
        read_pretrained(tmp_path)
    assert caught.value.mend


@pytest.mark.parametrize("revision", ["../x", "/etc", "", ".hidden", "a/../../b"])
def test_a_revision_is_no_path_out_of_the_folder(revision, tmp_path):
    with pytest.raises(UserError, match="revision"):
        snapshot(tmp_path, revision)


def test_a_missing_revision_names_the_command(tmp_path):
    with pytest.raises(UserError, match="--revision step8"):
        snapshot(tmp_path, "step8")


def test_sizes_that_define_no_model_are_refused():
    with pytest.raises(UserError, match="heads divide"):
        LanguageModel(8, 10, 1, 3, 8)
    model = LanguageModel(8, 8, 1, 2, 8, positions=4)
    with pytest.raises(UserError, match="shorter"):
        model(torch.zeros(1, 5, dtype=torch.long))
