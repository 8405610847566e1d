"""`iclbook probe` on tiny random models: every probe writes its arrays, and a model without in-context learning shows none."""

import json

import numpy as np
import pytest
import torch

from iclbook.cli import main
from iclbook.errors import UserError
from iclbook.papers.nagy2026.probe_command import PROBES, Sizes, alphabet_of, probe_folder
from iclbook.tasks.mixed_corpus import VOCABULARY

transformers = pytest.importorskip("transformers")
FEW = Sizes(lines=40, blocks=8, recall=8, patterns=8, ablated=4, sinks=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.GPTNeoXConfig(vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0, **size)
    path = tmp_path_factory.mktemp("model")
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(path)
    return path


@pytest.mark.parametrize("probe", PROBES)
def test_every_probe_writes_finite_arrays_and_where_they_come_from(probe, folder, tmp_path):
    values = probe_folder(folder, probe, tmp_path / "o.npz", tokenizer="corpus", sizes=FEW)
    with np.load(tmp_path / "o.npz") as stored:
        about = json.loads(str(stored["about"]))
        assert all(np.isfinite(stored[name]).all() for name in stored.files if name != "about")
    assert about["values"] == pytest.approx(values)
    assert about["model"]["family"] == "gpt_neox"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--probe", "alinment", "--tokenizer", "corpus"], "alignment"),
        (["--probe", "alignment"], "a tokenizer.json, or a folder with it"),
        (["--probe", "alignment", "--revision", "step8"], "hf download"),
    ],
)
def test_mistakes_are_refused_in_one_line(arguments, says, folder, tmp_path, capsys):
    assert main(["probe", "--model", str(folder), "--out", str(tmp_path / "o.npz"), *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_byte_level_tokenizer_is_read(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    tokens = [*"0123456789", "Ġ", "-", ">", "Ċ", *(f"Ġ{d}" for d in range(10)), "->", "Ġ->"]
    merges = [*(("Ġ", str(d)) for d in range(10)), ("-", ">"), ("Ġ", "->")]
    known = tokenizers.Tokenizer(tokenizers.models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    known.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    known.save(str(tmp_path / "tokenizer.json"))
    assert alphabet_of(tmp_path, None, "spaced", len(tokens)).digits == tuple(range(14, 24))
    assert alphabet_of(tmp_path, None, "plain", len(tokens)).digits == tuple(range(10))
    with pytest.raises(UserError, match="tokens that the model lacks"):
        alphabet_of(tmp_path, None, "spaced", len(tokens) - 3)
    (tmp_path / "tokenizer.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(UserError, match="git lfs pull"):
        alphabet_of(tmp_path, None, "spaced", len(tokens))
