"""The ladder's language model equals `transformers`' GPT-NeoX, and published checkpoints are read whole or refused in one line that helps."""

from pathlib import Path

import pytest
import torch

from iclbook.errors import UserError
from iclbook.models.language_model import LanguageModel
from iclbook.models.pretrained import read_pretrained, snapshot

transformers = pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.torch")
LAYERS, HEADS, WIDTH, VOCABULARY = 3, 4, 32, 61
COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
SIZES = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 40}
CONFIGS = {
    "gpt2": lambda **more: transformers.GPT2Config(
        n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=24, **COMMON, **more
    ),
    "gpt_neo": lambda **more: transformers.GPTNeoConfig(
        hidden_size=WIDTH,
        num_layers=LAYERS,
        num_heads=HEADS,
        attention_types=[[["global", "local", "global"], 1]],
        max_position_embeddings=24,
        **COMMON,
        **more,
    ),
    "llama": lambda **more: transformers.LlamaConfig(num_key_value_heads=2, **SIZES, **COMMON, **more),
    "qwen2": lambda **more: transformers.Qwen2Config(num_key_value_heads=2, **SIZES, **COMMON, **more),
    "pythia": lambda **more: transformers.GPTNeoXConfig(**SIZES, **COMMON, **more),
    "olmo2": lambda **more: transformers.Olmo2Config(num_key_value_heads=2, **SIZES, **COMMON, **more),
}


def saved(family: str, folder: Path, **options: object):
    """A model of `transformers` with random weights, gains and biases, saved in the hub's format."""
    torch.manual_seed(0)
    config = CONFIGS[family](**options)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for p in model.parameters():  # at the usual start attention is nearly uniform, which hides mistakes
            p.normal_(0, 0.3)
    model.save_pretrained(folder)
    return model


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (2, 17), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("family", CONFIGS)
@torch.no_grad()
def test_residual_stream_attention_and_logits_are_those_of_transformers(family, tmp_path, tokens):
    theirs = saved(family, tmp_path)
    want = theirs(tokens, output_hidden_states=True, output_attentions=True)
    ours, _ = read_pretrained(tmp_path)
    trace = ours.trace(tokens)
    assert trace.hidden.shape == (LAYERS + 1, 2, 17, WIDTH)
    pairs = [(ours.lens(trace.hidden[-1]), want.logits), (ours.lens(ours.stream(tokens)), want.logits)]
    pairs += [
        *zip(trace.hidden[:-1], want.hidden_states, strict=False),
        *zip(trace.attention, want.attentions, strict=True),
    ]
    for mine, other in pairs:
        assert (mine - other).abs().max() < 1e-5 * other.abs().max()


@torch.no_grad()
def test_a_head_is_ablated_as_by_its_columns_of_the_output_map(tmp_path, tokens):
    theirs = saved("pythia", tmp_path)
    ours, _ = read_pretrained(tmp_path)

    def without(layer: int, heads: torch.Tensor) -> torch.Tensor:
        heads = heads.clone()
        if layer == 1:
            heads[:, 2] = 0
        return heads

    size = WIDTH // HEADS
    theirs.gpt_neox.layers[1].attention.dense.weight[:, 2 * size : 3 * size] = 0
    assert torch.allclose(ours.lens(ours.stream(tokens, without)), theirs(tokens).logits, atol=1e-4)


@torch.no_grad()
def test_the_ladders_model_is_gpt_neox(tmp_path, tokens):
    """The same weights in our module, whose heads' queries, keys and values are stored apart."""
    theirs = saved(
        "pythia",
        tmp_path,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0},
    )
    model = LanguageModel(VOCABULARY, WIDTH, LAYERS, HEADS, 40)
    base = theirs.gpt_neox
    names = {
        "qkv": "attention.query_key_value",
        "out": "attention.dense",
        "up": "mlp.dense_h_to_4h",
        "down": "mlp.dense_4h_to_h",
    }
    names |= {"norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
    found = {"embed": base.embed_in.weight, "unembed": theirs.get_output_embeddings().weight}
    found |= {"norm": base.final_layer_norm.weight, "norm_bias": base.final_layer_norm.bias}
    for mine, other in names.items():
        parts = [layer.get_submodule(other) for layer in base.layers]
        found[mine], found[f"{mine}_bias"] = (
            torch.stack([getattr(p, kind) for p in parts]) for kind in ("weight", "bias")
        )
    for name in ("qkv", "qkv_bias"):
        found[name] = found[name].unflatten(1, (HEADS, 3, -1)).transpose(1, 2).flatten(1, 3)
    model.load_state_dict(found)
    want = theirs(tokens).logits
    assert (model(tokens) - want).abs().max() < 1e-5 * want.abs().max()


# -- what users met ---------------------------------------------------------------------------------------------------------


def test_attention_scaled_by_the_layer_is_read(tmp_path, tokens):
    """Stanford's Mistral GPT-2s."""
    with torch.no_grad():
        want = saved("gpt2", tmp_path, scale_attn_by_inverse_layer_idx=True)(tokens).logits
    ours, _ = read_pretrained(tmp_path)
    assert torch.allclose(ours.lens(ours.stream(tokens)), want, atol=1e-4)


def test_pickled_weights_are_read_and_pickled_code_is_not(tmp_path, tokens):
    saved("pythia", tmp_path)
    want = read_pretrained(tmp_path)[0].stream(tokens)
    weights = safetensors.load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    assert torch.equal(read_pretrained(tmp_path)[0].stream(tokens), want)
    torch.save(weights | {"code": Path("gone")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="is not read by transformers"):
        read_pretrained(tmp_path)


def test_weights_of_another_checkpoint_are_refused(tmp_path):
    saved("pythia", tmp_path)
    weights = safetensors.load_file(tmp_path / "model.safetensors")
    weights.pop("gpt_neox.layers.1.attention.dense.weight")
    safetensors.save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"lack tensor \S*layers\.1\.attention\.dense\.weight"):
        read_pretrained(tmp_path)


def test_a_hub_cache_by_revision_by_hash_and_a_lone_snapshot(tmp_path):
    place = tmp_path / "snapshots" / "0123456789abcdef"
    saved("olmo2", place)
    assert snapshot(tmp_path) == snapshot(tmp_path, "0123456789abcdef") == place
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "step4000").write_text("0123456789abcdef")
    assert snapshot(tmp_path, "step4000") == place
    (tmp_path / "snapshots" / "fedc").mkdir()
    with pytest.raises(UserError, match=r"2 snapshots\. Choose one: --revision"):
        snapshot(tmp_path)


def test_sharded_weights_read_the_same(tmp_path, tokens):
    theirs = saved("olmo2", tmp_path)
    whole = read_pretrained(tmp_path)[0]
    (tmp_path / "model.safetensors").unlink()
    theirs.save_pretrained(tmp_path, max_shard_size="20kB")
    again = read_pretrained(tmp_path)[0]
    assert again.about == whole.about
    assert torch.equal(again.stream(tokens), whole.stream(tokens))


@pytest.mark.parametrize("revision", ["../x", "/etc", "", ".hidden", "a/../../b"])
def test_a_revision_is_no_path_out_of_the_folder(revision, tmp_path):
    with pytest.raises(UserError, match="revision"):
        snapshot(tmp_path, revision)
