"""Rows on published models: what `iclbook probe` wrote of tiny random models is judged, and comes out as not reproduced."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from iclbook.claims import Record, load_ledger
from iclbook.claims.verdicts import verdict
from iclbook.errors import UserError
from iclbook.papers.nagy2026 import pretrained
from iclbook.papers.nagy2026.probe_command import Sizes, probe_folder
from iclbook.papers.nagy2026.probe_statistics import alignment
from iclbook.statistics import Estimate
from iclbook.tasks.mixed_corpus import VOCABULARY

transformers = pytest.importorskip("transformers")
FEW = Sizes(lines=80, blocks=4, recall=8, patterns=8, ablated=4, sinks=8)


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    """A folder of probes: tiny random models under the paper's names, Pythia-160M at two checkpoints as well."""
    models, out = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("probes")
    asked = {(name, "alignment") for name in {*pretrained.ALIGNED, *pretrained.RATED}}
    asked |= {(name, "sinks") for name in pretrained.SIZED} | {("gpt2", "patterns")}
    for name in {name for name, _ in asked}:
        torch.manual_seed(len(name))
        size = {"hidden_size": 32, "num_hidden_layers": 12, "num_attention_heads": 4, "intermediate_size": 64}
        config = transformers.GPTNeoXConfig(vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0, **size)
        path = models / f"models--somebody--{name}"
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(path)
        for probe in (probe for model, probe in asked if model == name):
            probe_folder(path, probe, out / f"{name}-{probe}.npz", tokenizer="corpus", sizes=FEW)
    return out


def judged(records: dict, item: str) -> str:
    """The word of a row, at the paper profile."""
    (claim,) = [claim for claim in load_ledger("nagy2026").claims if claim.id == f"nagy2026/{item}"]
    plain = {key: value.value.tolist() if isinstance(value, Estimate) else value for key, value in records.items()}
    return verdict(claim, {key: Record.make(key, value) for key, value in plain.items()}, "paper").word


@pytest.mark.parametrize("item", ["alignment", "fig5", "9.3", "9.4"])
def test_random_models_do_not_reproduce_a_row(probed, item):
    assert judged(pretrained.records(probed), item) == "not reproduced"
    assert judged({}, item) == "out of reach"


@pytest.mark.parametrize("item", ["fig2", "fig3", "fig4", "fig6", "fig7", "svd-truncation"])
def test_a_row_whose_models_are_not_all_there_stays_out_of_reach(probed, item):
    assert judged(pretrained.records(probed), item) == "out of reach"


def checkpoints(reductions: list[float]) -> list[pretrained.Probed]:
    """Probes of checkpoints whose estimates start at 0 and end this much nearer to the answer 5, half a step up in sign each."""
    estimates = [np.tile([0.0, r, r], (8, 1)) for r in reductions]
    return [pretrained.Probed(alignment(e, np.full(8, 5.0))._asdict(), {}) for e in estimates]


def test_life_cycle_from_checkpoints_with_known_reductions():
    """A peak of 1.5 that ends at 0.75 has lost one half; Pythia's 2 of 2 nothing."""
    rises = [0.1, 0.2, 0.5, 1.0, 1.5, 1.4, 1.2, 1.0, 0.9, 0.75]
    names = [f"stage1-step{i}-tokens{10 * i}B" for i in range(1, 11)]
    found = {("olmo-2-0425-1b", n, "alignment"): p for n, p in zip(names, checkpoints(rises), strict=True)}
    for name, (accuracy, logp) in {names[4]: (0.3, -4.8), names[-1]: (0.4, -4.2)}.items():
        for probe in ("induction", "recall"):
            values = {"accuracy10": accuracy, "accuracy": accuracy, "logp": logp}
            found["olmo-2-0425-1b", name, probe] = pretrained.Probed(values, {})
    for model in pretrained.YOUNG:
        (last,) = checkpoints([2.0])
        found |= {(model, f"step{step}", "alignment"): last for step in pretrained.STEPS}
    records = pretrained._life(found)
    assert records["probes/life/decay"] == pytest.approx(0.5)
    assert records["probes/life/held_out"] == pytest.approx([0.1, 0.1, 0.6])
    assert records["probes/life/pythia"] == [0, 0, 0]
    assert judged(records, "fig6") == "reproduced"


def test_values_as_printed_reproduce_the_row():
    printed = {
        "slope": [0.08, 0.1, 0.12],
        "signs": [0.55, 0.6, 0.65],
        "r2": [0.05, 0.07, 0.09],
        "falls": [0.33, 0.49, 0.52],
    }
    records = {f"probes/alignment/{name}": values for name, values in (printed | {"noise": [0.01] * 3}).items()}
    assert judged(records, "alignment") == "reproduced"
    assert judged(records | {"probes/alignment/signs": [0.55, 0.5, 0.65]}, "alignment") == "not reproduced"


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
        (tmp_path / name).write_bytes(next(probed.glob("gpt2-alignment.npz")).read_bytes())
    with pytest.raises(UserError, match="repeats another file: gpt2 alignment"):
        pretrained.read(tmp_path)


def test_what_a_circuit_loses_and_where_it_looks_are_read_by_layer():
    sink = np.array([[0.1, 0.3], [0.2, 0.4], [0.5, 0.7], [0.6, 0.8]])
    lost = np.array([0.1, 0.4, 0.2, 0.3, 0.1, 0.0, 0.9, 0.7])
    probed = SimpleNamespace(
        values={"icl_effect": 0.5}, arrays={"ablated_layer": 1 + lost, "intact": 1.0, "sink": sink}
    )
    found = pretrained._circuit({("gpt2", "", "patterns"): probed})
    assert found["probes/circuit/late_less_early"] == pytest.approx(0.7 - 0.4)
    assert found["probes/circuit/sinks"] == pytest.approx(0.65 - 0.25)


@pytest.mark.parametrize(("same", "density"), [(False, 1.0), (True, 0.0)])
def test_density_is_no_number_where_a_rank_never_varies(same, density):
    found = {}
    for at, model in enumerate(pretrained.PANEL, 1):
        rank = {"rank_tau0.1": 4 if same else at}
        found[model, "", "induction"] = SimpleNamespace(values={"r210": 0.6, "rho10": at**0.5})
        found[model, "", "truncation"] = SimpleNamespace(values=rank, arrays={"singular": np.ones(16)})
    assert pretrained._induction(found)["probes/induction/density"] == pytest.approx(density)
