"""Rows on published models: tiny random models of the paper's families are probed as the plan says, judged, and come out as not reproduced."""

import io
import json

import numpy as np
import pytest
import torch

from iclbook.claims import load_ledger
from iclbook.claims.record import Record
from iclbook.claims.references import tolerances_of
from iclbook.claims.verdicts import Verdict, verdict
from iclbook.cli import main
from iclbook.errors import UserError
from iclbook.papers.nagy2026 import pretrained, pretrained_values
from iclbook.papers.nagy2026.probe_command import Sizes, named, probe_folder
from iclbook.papers.nagy2026.probe_statistics import alignment
from iclbook.statistics import Estimate
from iclbook.tasks.mixed_corpus import VOCABULARY

transformers = pytest.importorskip("transformers")
FEW = Sizes(lines=80, blocks=4, recall=8, patterns=10, ablated=5, sinks=10)
COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
SIZES = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 32}


def config_of(name: str):
    """The family of a model of the paper, small; gpt2 has its own 12 layers of 12 heads, which section 9.3 names."""
    layers, heads = (12, 12) if name == "gpt2" else (3, 4)
    if "gpt2" in name:
        return transformers.GPT2Config(n_embd=24, n_layer=layers, n_head=heads, n_positions=64, **COMMON)
    if name.startswith("gpt-neo-"):
        kinds = {"num_layers": 3, "num_heads": 4, "attention_types": [[["global", "local", "global"], 1]]}
        return transformers.GPTNeoConfig(hidden_size=24, max_position_embeddings=64, **kinds, **COMMON)
    grouped = {"num_key_value_heads": 2, **SIZES, **COMMON}
    families = {
        "qwen": lambda: transformers.Qwen2Config(**grouped),
        "tinyllama": lambda: transformers.LlamaConfig(**grouped),
        "olmo": lambda: transformers.Olmo2Config(**grouped),
        "pythia": lambda: transformers.GPTNeoXConfig(**SIZES, **COMMON),
    }
    return next(make for start, make in families.items() if name.startswith(start))()


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """A folder with every call of the plan, on one random model a name, read from its first checkpoint's folder; later checkpoints are its copies."""
    models, out = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("probes")
    ages = [f"stage1-step{i}-tokens{10 * i}B" for i in range(1, pretrained_values.CHECKPOINTS + 1)]
    calls = {call for row in pretrained.ROWS for call in row.calls}
    calls |= {(pretrained_values.AGEING, age, probe) for age in ages for probe in ("alignment", "induction", "recall")}
    first: dict[tuple[str, str, bool], bytes] = {}
    for number, (name, revision, probe) in enumerate(sorted(calls)):
        file, place = out / f"{name}-{revision}-{probe}.npz", models / name / revision
        late = revision == f"step{pretrained_values.STEPS[-1]}"  # another model: nothing may be alike from start to end
        if (name, probe, late) not in first:
            if not (place / "config.json").exists():
                torch.manual_seed(number)
                transformers.AutoModelForCausalLM.from_config(config_of(name)).save_pretrained(place)
            probe_folder(models / name, probe, file, revision or None, tokenizer="corpus", sizes=FEW)
            first[name, probe, late] = file.read_bytes()
            continue
        with np.load(io.BytesIO(first[name, probe, late])) as stored:
            about = json.loads(str(stored["about"]))
            about["model"]["revision"] = revision
            np.savez(file, **{**stored, "about": json.dumps(about)})
    return out


def judged(records: dict, item: str) -> Verdict:
    """The verdict on a row, at the paper profile, with margins."""
    (claim,) = [claim for claim in load_ledger("nagy2026").claims if claim.id == f"nagy2026/{item}"]
    plain = {}
    for key, value in records.items():
        parts = {key: value.value, f"{key}_se": value.error} if isinstance(value, Estimate) else {key: value}
        plain |= {name: Record.make(name, np.asarray(part).tolist()) for name, part in parts.items()}
    by = tolerances_of({key: record.value for key, record in plain.items()}, None)
    return verdict(claim, plain, "paper", by)


ITEMS = ("alignment", "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "svd-truncation", "9.3", "9.4")


@pytest.fixture(scope="module")
def measured(probed):
    return pretrained.records(probed)


@pytest.mark.parametrize("item", ITEMS)
def test_random_models_of_the_papers_families_do_not_reproduce_a_row(measured, item):
    found = judged(measured, item)
    assert found.word == "not reproduced"
    assert all(part.margin is not None for part in found.parts), "every part has a margin"
    assert judged({}, item).word == "out of reach"


def test_the_plan_counts_what_is_there_and_names_the_call_that_is_missing(probed, tmp_path, capsys):
    assert not [line for line in pretrained.plan(probed) if "missing" in line or "iclbook probe" in line]
    for path in probed.iterdir():
        if path.name != "pythia-1b-step256-alignment.npz":
            (tmp_path / path.name).symlink_to(path)
    assert main(["probe", "--plan", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "figure 3: 26 of 27 there, missing pythia-1b step256 alignment" in said
    assert "section 9.4: 6 of 6 there" in said
    calls = [line for line in said if line.startswith("iclbook probe")]
    call = f"iclbook probe --model pythia-1b --revision step256 --probe alignment --out {tmp_path}/pythia-1b-step256-alignment.npz"
    assert calls == [call]
    assert not [key for key in pretrained.records(tmp_path) if key.startswith("probes/emergence/")]
    every = [line for line in pretrained.plan() if line.startswith("iclbook probe")]
    assert len(every) == len({*every}) == len({c for row in pretrained.ROWS for c in pretrained.needed(row, {})})


def test_a_checkpoints_folder_is_matched_to_its_model_or_refused(tmp_path):
    def folder(path: str, **config: str):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "config.json").write_text(str(config).replace("'", '"'))
        return tmp_path / path

    assert named(folder("Pythia-160M/step4000")) == ("pythia-160m", "step4000")
    assert named(tmp_path / "Pythia-160M", "step4000") == ("pythia-160m", "step4000")
    hashed = folder(f"models--EleutherAI--pythia-410m/snapshots/{'a1' * 20}")
    assert named(hashed) == ("pythia-410m", None)
    (tmp_path / "models--EleutherAI--pythia-410m" / "refs").mkdir()
    (tmp_path / "models--EleutherAI--pythia-410m" / "refs" / "step64").write_text("a1" * 20)
    assert named(hashed) == ("pythia-410m", "step64")
    assert named(folder("weights", _name_or_path="EleutherAI/pythia-1b")) == ("pythia-1b", None)
    assert named(folder("mine")) == ("mine", None)
    with pytest.raises(UserError, match="names a checkpoint and no model") as refused:
        named(folder("mine/step8"))
    assert "--name" in refused.value.hint
    assert named(tmp_path / "mine" / "step8", name="pythia-14m") == ("pythia-14m", "step8")


def checkpoints(reductions: list[float]) -> list[pretrained.Probed]:
    """Probes of checkpoints whose estimates start at 0 and end this much nearer to the answer 5, half a step up in sign each."""
    target = np.full(8, 5.0)
    estimates = [np.tile([0.0, r, r], (8, 1)) for r in reductions]
    return [
        pretrained.Probed(alignment(e, target)._asdict(), {"estimate_true": e, "target": target}) for e in estimates
    ]


def test_life_cycle_from_checkpoints_with_known_reductions():
    """A peak of 1.5 that ends at 0.75 has lost one half; Pythia's 2 of 2 nothing."""
    rises = [0.1, 0.2, 0.5, 1.0, 1.5, 1.4, 1.2, 1.0, 0.9, 0.75]
    names = [f"stage1-step{i}-tokens{10 * i}B" for i in range(1, 11)]
    found = {("olmo-2-0425-1b", n, "alignment"): p for n, p in zip(names, checkpoints(rises), strict=True)}
    for name, (right, logp) in {names[4]: (3, -4.8), names[-1]: (4, -4.2)}.items():
        margin = np.where(np.arange(10) < right, 1.0, -1.0)
        arrays = {"margin": margin, "margin10": margin, "logp": np.full(10, logp)}
        for probe in ("induction", "recall"):
            found["olmo-2-0425-1b", name, probe] = pretrained.Probed({}, arrays)
    for model in pretrained_values.YOUNG:
        (last,) = checkpoints([2.0])
        found |= {(model, f"step{step}", "alignment"): last for step in pretrained_values.STEPS}
    records = pretrained_values.life(found)
    assert records["probes/life/decay"].value == pytest.approx(0.5)
    assert records["probes/life/held_out"].value == pytest.approx([0.1, 0.1, 0.6])
    assert records["probes/life/pythia"].value == pytest.approx([0, 0, 0])
    assert judged({key: of.value for key, of in records.items()}, "fig6").word == "reproduced"


def test_values_as_printed_reproduce_the_row_and_rates_that_predict_nothing_decide_nothing():
    printed = {
        "slope": [0.08, 0.1, 0.12],
        "signs": [0.55, 0.6, 0.65],
        "r2": [0.05, 0.07, 0.09],
        "falls": [0.33, 0.49, 0.52],
    }
    records = {f"probes/alignment/{name}": values for name, values in printed.items()}
    assert judged(records, "alignment").word == "reproduced"
    assert judged(records | {"probes/alignment/signs": [0.55, 0.5, 0.65]}, "alignment").word == "not reproduced"
    rates = {"apart": [0.048, 0.104, 0.021], "contracting": [0.9, 0.96, 0.92], "no_contraction": [0.199, 0.239, 0.121]}
    records = {f"probes/rates/{name}": values for name, values in rates.items()}
    assert judged(records, "fig5").word == "reproduced"
    near_one = records | {"probes/rates/no_contraction": [0.01, 0.02, 0.03]}
    assert judged(near_one, "fig5").word == "too close to call"


def test_without_a_folder_nothing_is_recorded(monkeypatch):
    monkeypatch.delenv(pretrained.SWITCH, raising=False)
    assert pretrained.records() == {}


def test_what_cannot_be_read_is_one_line(probed, tmp_path):
    with pytest.raises(UserError, match="there is no folder"):
        pretrained.read(tmp_path / "gone")
    np.savez(tmp_path / "a.npz", x=np.zeros(2))
    with pytest.raises(UserError, match="is no result of a probe"):
        pretrained.read(tmp_path)
    (tmp_path / "a.npz").unlink()
    for name in ("a.npz", "b.npz"):
        (tmp_path / name).write_bytes(next(probed.glob("gpt2--alignment.npz")).read_bytes())
    with pytest.raises(UserError, match="repeats another file: gpt2 alignment"):
        pretrained.read(tmp_path)


def test_what_a_circuit_loses_and_where_it_looks_are_read_by_layer_and_head():
    lost = np.array([0.1, 0.4, 0.2, 0.3, 0.1, 0.0, 0.9, 0.5, 0.6, 0.9, 0.9, 0.7])
    sink, match, effect = np.full((2, 12, 12), 0.1), np.zeros((2, 12, 12)), np.zeros((2, 12, 12))
    for layer, head in pretrained_values.CAUSAL:
        effect[:, layer, head] = 1
    for (layer, head), (to_sink, to_pattern) in pretrained_values.HEADS.items():
        sink[:, layer, head], match[:, layer, head] = to_sink, to_pattern
    arrays = {"ablated_layer": 1 + np.stack([lost, lost]), "intact": np.ones(2), "ablated": 1 + effect}
    arrays |= {"sink": sink, "match": match, "read": np.array([6, 8, 10, 12])}
    arrays |= {"loss": np.array([0.48, 0.5, 0.3, 0.32]), "alone": np.full(4, 10.95)}
    found = pretrained_values.circuit({("gpt2", "", "patterns"): pretrained.Probed({}, arrays)})
    assert found["probes/circuit/effect"].value == pytest.approx(10.55)
    assert found["probes/circuit/late_less_early"].value == pytest.approx(0.7 - 0.4)
    assert found["probes/circuit/heads"].value == 1
    assert found["probes/circuit/match_apart"].value == pytest.approx(np.zeros(5))
    assert (found["probes/circuit/short"].value, found["probes/circuit/long"].value) == pytest.approx((0.49, 0.31))
    late, early = sink[0, 6:].mean(), sink[0, :2].mean()
    assert found["probes/circuit/sinks"].value == pytest.approx(late - early)


@pytest.mark.parametrize(("same", "density"), [(False, 1.0), (True, 0.0)])
def test_density_is_no_number_where_a_rank_never_varies(same, density):
    found = {}
    falling = np.tile(0.6 ** np.arange(4.0), (6, 1))
    for at, model in enumerate(pretrained_values.PANEL, 1):
        rank = {"rank_tau0.1": 4 if same else at}
        found[model, "", "induction"] = pretrained.Probed({"rho10": at**0.5}, {"surprisal10": falling})
        found[model, "", "truncation"] = pretrained.Probed(rank, {"singular": np.ones(16)})
    assert pretrained_values.induction(found)["probes/induction/density"].value == pytest.approx(density)
    assert pretrained_values.induction(found)["probes/induction/r2"].value == pytest.approx(1)
