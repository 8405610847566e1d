"""``iclbook probe`` on a folder in the hub's format: what it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from iclbook.cli import main
from iclbook.models.language_model import LanguageModel
from iclbook.papers.nagy2026.probes import command, prompts, readout
from iclbook.papers.nagy2026.probes.alignment import alignment
from iclbook.tasks.mixed_corpus import VOCABULARY

safetensors = pytest.importorskip("safetensors.torch")
WIDTH, LAYERS, HEADS = 32, 2, 4


def folder(path: Path, vocabulary: int = VOCABULARY) -> Path:
    """A random GPT-2 of four heads in the hub's format."""
    source = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return 0.3 * torch.randn(shape, generator=source)

    weights = {"wte.weight": drawn(vocabulary, WIDTH), "wpe.weight": drawn(64, WIDTH)}
    weights |= {"ln_f.weight": drawn(WIDTH), "ln_f.bias": drawn(WIDTH)}
    for i in range(LAYERS):
        for name, (a, b) in {
            "attn.c_attn": (WIDTH, 3 * WIDTH),
            "attn.c_proj": (WIDTH, WIDTH),
            "mlp.c_fc": (WIDTH, 4 * WIDTH),
            "mlp.c_proj": (4 * WIDTH, WIDTH),
        }.items():
            weights |= {f"h.{i}.{name}.weight": drawn(a, b), f"h.{i}.{name}.bias": drawn(b)}
        for name in ("ln_1", "ln_2"):
            weights |= {f"h.{i}.{name}.weight": drawn(WIDTH), f"h.{i}.{name}.bias": drawn(WIDTH)}
    path.mkdir(parents=True, exist_ok=True)
    safetensors.save_file(weights, path / "model.safetensors")
    sizes = {"vocab_size": vocabulary, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 64}
    (path / "config.json").write_text(json.dumps({"model_type": "gpt2"} | sizes))
    return path


def tokenizer(path: Path, digits: bool = True) -> Path:
    """Words as tokens: digits, an arrow, a line and some letters."""
    words = [" ->", "\n", *(chr(97 + i) for i in range(26)), *(f" {d}" for d in range(10) if digits)]
    vocabulary = {word: i for i, word in enumerate(["?", *words])}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "?"}
    empty = dict.fromkeys(
        ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    )
    path.write_text(json.dumps({"version": "1.0", "added_tokens": [], **empty, "model": model}))
    return path


def run(*arguments: object) -> int:
    return main(["probe", *map(str, arguments)])


def about(path: Path) -> dict:
    with np.load(path, allow_pickle=False) as data:
        return json.loads(str(data["about"]))


@pytest.mark.parametrize("probe", command.PROBES)
def test_every_probe_writes_its_arrays_and_where_they_come_from(probe, tmp_path, monkeypatch, capsys):
    small = command.Sizes(lines=12, blocks=6, recall=6, patterns=8, ablated=8, sinks=8)
    monkeypatch.setattr(command, "Sizes", lambda: small)
    model, out = folder(tmp_path / "m"), tmp_path / "out.npz"
    assert run("--model", model, "--probe", probe, "--tokenizer", "corpus", "--out", out) == 0
    assert f"wrote {out}" in capsys.readouterr().out
    said = about(out)
    assert said["probe"] == probe
    assert said["model"]["family"] == "gpt2"
    assert len(said["model"]["weights"]) == len(said["source"]) == 16
    assert all(np.isfinite(v) for v in said["values"].values())
    with np.load(out, allow_pickle=False) as data:
        shapes = {name: data[name].shape for name in data.files}
    layers = {"alignment": "estimate_true", "induction": "surprisal10"}
    if probe in layers:
        assert shapes[layers[probe]][1] == LAYERS + 1
    if probe == "patterns":
        assert shapes["ablated_zero"] == shapes["sink"] == (LAYERS, HEADS)


def test_values_follow_from_the_arrays(tmp_path):
    model, out = folder(tmp_path / "m"), tmp_path / "out.npz"
    sizes = command.Sizes(lines=20)
    values = command.probe_folder(model, "alignment", out, tokenizer="corpus", sizes=sizes)
    with np.load(out, allow_pickle=False) as data:
        found = alignment(data["estimate_true"], data["target"])
    assert {k: values[k] for k in found._fields} == pytest.approx(found._asdict())


def test_a_revision_is_a_folder_of_its_own_and_is_said(tmp_path):
    folder(tmp_path / "m" / "step4")
    out = tmp_path / "out.npz"
    options = ("--probe", "sinks", "--tokenizer", "corpus", "--out", out)
    assert run("--model", tmp_path / "m", "--revision", "step4", *options) == 0
    assert about(out)["model"]["revision"] == "step4"


def test_texts_are_written_by_the_models_tokenizer(tmp_path):
    pytest.importorskip("tokenizers")
    model = folder(tmp_path / "m", vocabulary=39)
    tokenizer(model / "tokenizer.json")
    alphabet = command.alphabet_of(model, None, "spaced", 39)
    assert alphabet.digits == tuple(range(29, 39))
    assert (alphabet.arrow, alphabet.line) == ((1,), (2,))
    assert prompts.lines(alphabet, 3).tokens.max() < 39
    assert run("--model", model, "--probe", "alignment", "--out", tmp_path / "o.npz") == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"--probe": "magic"}, "alignment, induction"),
        ({"--out": "out.txt"}, "ends in .npz"),
        ({"--model": "nowhere"}, "hf download"),
        ({"--revision": "step9"}, "--revision step9"),
        ({"--tokenizer": "nowhere"}, "--tokenizer PATH"),
        ({"--tokenizer": "broken.json"}, "cannot be read"),
        ({"--tokenizer": "letters.json"}, "--digits plain"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(change, says, tmp_path, monkeypatch, capsys):
    pytest.importorskip("tokenizers")
    monkeypatch.chdir(tmp_path)
    folder(tmp_path / "m")
    tokenizer(tmp_path / "letters.json", digits=False)
    (tmp_path / "broken.json").write_text("{")
    options = {"--model": "m", "--probe": "alignment", "--tokenizer": "corpus", "--out": "out.npz"} | change
    before = sorted(p.name for p in tmp_path.iterdir())
    assert run(*(part for pair in options.items() for part in pair)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert says in said
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_the_corpus_is_no_alphabet_of_another_vocabulary(tmp_path, capsys):
    model = folder(tmp_path / "m", vocabulary=40)
    assert (
        run("--model", model, "--probe", "sinks", "--tokenizer", "corpus", "--out", tmp_path / "o.npz") == 2
    )
    assert "own tokenizer" in capsys.readouterr().err


def test_weights_that_are_not_finite_are_refused(tmp_path, capsys):
    model = folder(tmp_path / "m")
    weights = safetensors.load_file(model / "model.safetensors")
    weights["wte.weight"][:] = torch.nan
    safetensors.save_file(weights, model / "model.safetensors")
    out = tmp_path / "o.npz"
    assert run("--model", model, "--probe", "recall", "--tokenizer", "corpus", "--out", out) == 2
    assert "not finite" in capsys.readouterr().err
    assert not out.exists()


def test_mean_ablation_keeps_what_all_prompts_share():
    model = LanguageModel(VOCABULARY, 16, 1, 2, 16)
    model.initialise(torch.Generator().manual_seed(1), 20.0)
    model.requires_grad_(False)
    one = prompts.patterns(prompts.CORPUS, 1)
    same = prompts.Patterns(*(part.repeat(4, *[1] * (part.dim() - 1)) for part in one))
    intact = readout.pattern_losses(model, same)[0].mean()
    assert torch.allclose(readout.ablations(model, same, mean=True), intact.expand(1, 2), atol=1e-5)
    assert (readout.ablations(model, same) - intact).abs().min() > 1e-3
