"""The ladder: its studies, its observation, and what its records say of models whose answer is known."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from nagy2026.kit import LEDGER

from iclbook.claims import Record, verdict
from iclbook.papers.nagy2026.figures import ladder as figures
from iclbook.papers.nagy2026.measures import ladder as records
from iclbook.papers.nagy2026.measures import ladder_tables as tables
from iclbook.papers.nagy2026.probes import embedding, prompts
from iclbook.papers.nagy2026.probes.ladder import (
    BLOCK_LENGTHS,
    SIZES,
    Probing,
    checkpoints,
    ladder,
    ladder_studies,
    size_name,
)
from iclbook.papers.nagy2026.probes.models import mixed
from iclbook.store import Results
from iclbook.tasks.mixed_corpus import text_entropies
from iclbook.training.groups import Run
from iclbook.training.optimisers import Cosine
from iclbook.training.study import Study

SMALL = Probing(lines=32, blocks=6, lists=6, patterns=8, rows=4, ablated=4)


def test_the_schedule_warms_up_and_falls_to_a_tenth():
    schedule = Cosine(rise=0.01)
    at = [float(schedule.factor(torch.tensor(float(t)), 1000)) for t in (0, 5, 10, 505, 1000)]
    assert at == pytest.approx([0, 0.5, 1, 0.55, 0.1], abs=1e-3)
    every = torch.stack([schedule.factor(torch.tensor(float(t)), 1000) for t in range(10, 1001)])
    assert (every.diff() <= 0).all()


def test_checkpoints_are_on_a_log_scale():
    steps = checkpoints(8192)
    assert steps[:9] == (0, 1, 2, 4, 8, 16, 32, 64, 128)
    assert steps[9:13] == (192, 256, 384, 512)
    assert steps[-2:] == (6144, 8192)


@pytest.mark.parametrize("profile", ["smoke", "paper"])
def test_twins_are_pairs_of_the_small_ladder(profile):
    studies = {s.name: s for s in ladder_studies(profile)}
    small, twin = studies["ladder_small"], studies["ladder_twin"]
    assert small.groups == twin.groups
    assert (small.data.regression, twin.data.regression) == (True, False)
    assert small.steps == twin.steps == studies["ladder_large"].steps


def test_sizes_grow():
    counts = []
    for group in ladder("x", SIZES, (0,), 8, SMALL).groups:
        counts.append(sum(p.numel() for p in group.build().parameters()))
    assert counts == sorted(counts)
    assert [size_name(s) for s in SIZES] == ["l2w32", "l3w48", "l4w64", "l6w64", "l6w96"]


@pytest.fixture(scope="module")
def trained() -> tuple[Study, dict]:
    study = ladder("x", ((2, 16, 2),), (0, 1), 12, SMALL)
    return study, study.trainer("cpu", compile=False).train(progress=False)["l2w16"]


def test_training_lowers_the_loss_and_records_every_array(trained):
    _, history = trained
    assert history.steps.tolist() == [0, 1, 2, 4, 8, 12]
    assert history.loss[-1].max() < history.loss[1].min()
    shapes = {name: x.shape[2:] for name, x in history.circuits.items()}
    assert shapes["lines_estimate"] == shapes["shuffled_estimate"] == (32, 3)
    assert shapes["prior_estimate"] == (10, 3)
    assert all(shapes[f"block{m}_surprisal"] == (6, 3) for m in BLOCK_LENGTHS)
    assert shapes["ablated_loss"] == shapes["sink"] == (2, 2)
    assert shapes["truncated_last"] == (len(embedding.SHARES), 6)


def test_a_run_alone_is_the_run_in_the_ensemble(trained):
    _, history = trained
    alone = ladder("x", ((2, 16, 2),), (1,), 12, SMALL).trainer("cpu", compile=False).train(progress=False)
    estimate = alone["l2w16"].circuits["lines_estimate"][:, 0]
    assert estimate == pytest.approx(history.circuits["lines_estimate"][:, 1], abs=1e-4)


def test_seeds_differ_and_twins_start_alike():
    mixed, twin = (
        ladder("x", ((2, 16, 2),), (0,), 2, SMALL, regression=r)
        .trainer("cpu", compile=False)
        .train(progress=False)
        for r in (True, False)
    )
    first = [h["l2w16"].circuits["lines_estimate"][0] for h in (mixed, twin)]
    assert np.array_equal(*first)
    assert Run(0) != Run(1)


# -- records of ladders whose answer is known --------------------------------------------------------------------------

STEPS = np.array([0, 1, 2, 4, 8, 16, 32, 64])
RNG = np.random.default_rng(5)


def fake(study: str, rate: float, course: tuple[float, ...], lawful: bool = True) -> Results:
    """Models whose estimate approaches the answer by ``rate`` a layer, times ``course`` over training; without a law, nothing moves."""
    arrays = {}
    studies = {s.name: s for s in ladder_studies("smoke")}
    for group in studies[study].groups:
        layers, width = dict(group.kwargs)["n_layers"], dict(group.kwargs)["width"]
        runs, T, n = len(group.runs), len(STEPS), 40
        target = prompts.lines(prompts.CORPUS, n).target.numpy().astype(float)
        depth = 1 - (1 - rate) ** np.arange(layers + 1)
        estimate = 4.5 + np.array(course)[:, None, None, None] * (target - 4.5)[:, None] * depth
        estimate = np.broadcast_to(estimate, (T, runs, n, layers + 1))
        flat = np.full((T, runs, n, layers + 1), 4.5)
        sink = np.broadcast_to(np.linspace(0.2, 0.8, layers)[:, None], (T, runs, layers, 2)).copy()
        sink[0] = 0.18
        ablated = np.full((T, runs, layers, 2), 1.0)
        ablated[:, :, -1, 0] = 5
        more = RNG.uniform(0, 1e-3, (T, runs))
        arrays |= {
            f"{group.name}/{name}": x
            for name, x in {
                "steps": STEPS,
                "loss": np.ones((T, runs)),
                "lines_estimate": estimate if lawful else flat,
                "shuffled_estimate": flat,
                "text_loss": np.full((T, runs), text_entropies()[0] - 0.25),
                "block10_margin": np.ones((T, runs, 6)) * np.linspace(-1, 1, T)[:, None, None],
                "block10_surprisal": np.broadcast_to(
                    4 * 0.5 ** np.arange(layers + 1), (T, runs, 6, layers + 1)
                ),
                "recall_logp": (np.linspace(-4, -1, T)[:, None] + more)[..., None] * np.ones(6),
                "pattern_loss": np.full((T, runs, 8), 0.5),
                "alone_loss": 4.5 + more[..., None] * np.ones(8),
                "sink": sink,
                "sink_all": sink,
                "intact_loss": np.full((T, runs), 0.5),
                "ablated_loss": ablated,
                "ablated_layer_loss": ablated.max(-1),
                "singular": np.broadcast_to(np.r_[np.ones(4), np.full(width - 4, 1e-6)], (T, runs, width)),
                "truncated_last": np.broadcast_to(
                    np.array([[1.0 if k >= 4 else -1] for k in embedding.kept(width)]),
                    (T, runs, len(embedding.SHARES), 2),
                ),
                "truncated_first": np.full((T, runs, len(embedding.SHARES), 2), -1.0),
                "truncated_random": np.broadcast_to([-1.0, 1], (T, runs, len(embedding.SHARES), 2)),
            }.items()
        }
    return Results(arrays, {})


COURSE = (0.0, -0.05, -0.2, -0.1, 0.3, 0.8, 1.0, 0.75)


LEDGER_KEYS = {
    key for claim in LEDGER.claims if "/q-ladder" in claim.id for part in claim.parts for key in part.keys
}


def get(name: str) -> Results:
    return fake(name, 0.3, COURSE, lawful=name != "ladder_twin")


def test_gates_are_the_margins():
    found = records.gates(get)
    assert found["ladder/gates/text_below_order_1"] == pytest.approx([0.25] * 9)
    assert found["ladder/gates/induction"] == [1.0] * 9


def test_alignment_of_a_known_rate():
    late = records.alignments(lambda name: fake(name, 0.3, (*COURSE[:-1], 1.0)))
    assert late["ladder/alignment/slope"] == pytest.approx(0.3, abs=1e-6)
    assert late["ladder/alignment/signs"] == 1
    assert late["ladder/alignment/reduction"] > 0.5
    assert late["ladder/alignment/slope_se"] < 1e-6


def test_nulls_let_a_true_learner_pass_and_a_constant_one_not():
    found = records.nulls(get)
    assert found["ladder/nulls/signs_above_noise"] > 0.2
    assert found["ladder/nulls/reduction_by_prompt"] > 0.5
    assert found["ladder/nulls/reduction_by_law"] == pytest.approx(_reduction_on_changed_prompts(), abs=1e-6)
    flat = records.nulls(lambda name: fake(name, 0.3, COURSE, lawful=False))
    assert flat["ladder/nulls/signs_above_noise"] == pytest.approx(0)
    assert flat["ladder/nulls/reduction_by_law"] == 0


def _reduction_on_changed_prompts() -> float:
    """Of the fake models at the end, by hand: from 4.5 a share of the way to the answer, on the prompts whose context another order changes."""
    true, other = (prompts.lines(prompts.CORPUS, 40, order=order) for order in ("true", "shuffled"))
    changed = (true.tokens != other.tokens).any(1).numpy()
    assert 0 < changed.sum() < 40
    off = np.abs(true.target.numpy()[changed] - 4.5).mean()
    ways = [COURSE[-1] * (1 - 0.7**layers) for layers in (2, 2, 2, 2, 3)]
    return off * float(np.mean(ways))


def test_the_twin_that_knows_nothing():
    found = records.twin_values(get)
    assert (found["ladder/twin/signs"], found["ladder/twin/reduction"]) == (0.5, 0)
    assert found["ladder/twin/reduction_lost"] > 0.5


def test_rates_agree_where_the_law_is_geometric():
    found = records.rates(lambda name: fake(name, 0.3, (*COURSE[:-1], 1.0)))
    assert max(found["ladder/rates/apart"]) < 1e-6
    assert found["ladder/rates/compounded"] == pytest.approx([1] * 5)


def test_emergence_has_its_turns():
    found = records.emergence(get)
    assert found["ladder/emergence/valley"] < -0.1
    assert found["ladder/emergence/crossed"] == 1
    assert found["ladder/emergence/twin_valley"] == 0
    shallow = records.emergence(lambda name: fake(name, 0.3, tuple(max(c, -0.01) for c in COURSE)))
    assert shallow["ladder/emergence/crossed"] == 0, "without a valley nothing crosses out of one"
    later = records.emergence(lambda name: fake(name, 0.3, (*COURSE[:-1], -0.9)))
    assert later["ladder/emergence/twin_valley"] < later["ladder/emergence/valley"], (
        "a twin's counts after its peak, too"
    )


def test_sinks_grow_with_depth_and_from_flat():
    found = records.sinks(get)
    assert found["ladder/sinks/thirds"] == pytest.approx([4.0] * 5)
    assert found["ladder/sinks/with_reduction"] > 0


def test_inductions_and_the_straightness_of_one_jump():
    found = records.inductions(get)
    assert found["ladder/induction/r2"] == pytest.approx(1)
    assert found["ladder/induction/monotone"] == 1


def test_the_straightness_of_one_jump_and_the_percentile_of_144_heads():
    found = records.power_values()
    # a step in the middle of N points has R^2 = 3 a b / (N^2 - 1) on a straight line, a before and b after it, here N = 13
    assert found["ladder/induction/one_jump_r2"] == pytest.approx(3 * 6 * 7 / 168, abs=1e-9)
    assert found["ladder/induction/last_jump_r2"] == pytest.approx(3 * 12 * 1 / 168, abs=1e-9)
    assert found["ladder/heads/of_144"] == 8


def test_truncation_against_controls():
    found = records.truncation(get)
    assert found["ladder/truncation/gap"] == 1
    assert found["ladder/truncation/gap_above_random"] == 1


def test_the_last_layer_costs_most():
    found = records.heads(get)
    assert found["ladder/heads/effect"] == pytest.approx(4, abs=1e-3)
    assert found["ladder/heads/depth_of_worst_layer"] == [1] * 5


def test_a_life_with_a_quarter_lost():
    found = records.life(get)
    assert found.keys() == {key for key in LEDGER_KEYS if key.startswith("ladder/life/")}
    assert 0.1 < found["ladder/life/decay"] < 0.25  # less what choosing the peak gives
    assert found["ladder/life/induction"] == 0
    assert found["ladder/life/recall"] == pytest.approx(3 / 7, abs=1e-2)
    assert found["ladder/life/signs"] == pytest.approx(0), "the direction stays"
    less = records.life(lambda name: fake(name, 0.3, (*COURSE[:-1], 0.9)))
    assert less["ladder/life/decay"] < found["ladder/life/decay"]
    # a peak at the end leaves nothing to decay
    assert records.life(lambda name: fake(name, 0.3, (*COURSE[:-1], 1.1))) == {}
    # a course that never rises has no peak to decay from: nothing is recorded, and the question stays open
    assert records.life(lambda name: fake(name, 0.3, tuple(-abs(c) for c in COURSE))) == {}


def test_forecasts_are_of_the_models_left_out():
    found = records.forecasts(noisy)
    assert found["ladder/forecast/skill"] < 1
    assert found.keys() == {"ladder/forecast/skill", "ladder/forecast/across_skill"}


def noisy(name: str) -> Results:
    results = fake(name, 0.3, COURSE)
    for key, x in results.arrays.items():
        if key.endswith("lines_estimate"):
            results.arrays[key] = x + 0.05 * RNG.standard_normal(x.shape)
    return results


def test_seven_models_cannot_show_a_correlation_of_the_printed_size():
    found = records.power_values()
    assert found["forecast/power_7"] < found["forecast/power_9"] < 0.5
    assert found["forecast/false_best_of_4"] > 0.1
    assert found["forecast/width_7"] > 1


@pytest.mark.parametrize("name", ["layers", "development", "signs", "forecast"])
def test_figures_show_every_model(name):
    fig = getattr(figures, name)(noisy)
    drawn = {text.get_text() for legend in fig.legends for text in legend.get_texts()}
    drawn |= {tick.get_text() for ax in fig.axes for tick in ax.get_xticklabels()}
    assert {"l2w16", "l2w24", "l3w24"} <= drawn
    plt.close(fig)


def test_a_frame_shows_the_prompts_own_course():
    m = mixed(get)[0]
    fig = figures.read_out_frame(m, step=32, layer=1, prompt=3)
    thick = [line for line in fig.axes[1].lines if line.get_linewidth() == 2]
    assert np.array_equal(thick[0].get_ydata(), m.arrays["lines_estimate"][6][3])
    (mark,) = (line for line in fig.axes[0].lines if line.get_marker() == "o")
    assert mark.get_ydata() == m.arrays["lines_estimate"][6][3, 1]
    plt.close(fig)


def test_the_prompt_of_the_slider_starts_wrong_and_ends_right():
    m = mixed(get)[0]
    estimate = np.full_like(m.arrays["lines_estimate"], 4.5)
    estimate[-1, 5, 0], estimate[-1, 5, -1] = m.target[5] + 9, m.target[5]
    estimate[-1, 6, 0], estimate[-1, 6, -1] = m.target[6] + 20, m.target[6] + 2
    assert figures.clearest_prompt(m._replace(arrays={"lines_estimate": estimate})) == 5


def test_the_chapter_records_what_the_ledger_asks():
    assert records.ladder_records(noisy).keys() == LEDGER_KEYS
    asked = [claim for claim in LEDGER.claims if "/q-ladder" in claim.id]
    assert len(asked) == 15
    values = {k: Record.make(k, v) for k, v in records.ladder_records(noisy).items()}
    assert "open" not in {verdict(claim, values, "paper").word for claim in asked}


def test_tables_show_every_size_under_what_is_printed():
    sizes = ["l2w16", "l2w24", "l3w24", "l2w16, no regression", "l2w24, no regression"]
    for rows, printed, ours in (
        (tables.alignment_rows, 5, sizes),
        (tables.life_rows, 5, sizes[:3]),
        (tables.sink_rows, 6, sizes),
    ):
        found = rows(get)
        assert [row["model"] for row in found[printed:]] == ours
        assert all(row["model"].endswith("(printed)") for row in found[:printed])
    last = tables.alignment_rows(get)[-1]
    assert (last["signs"], last["slope"]) == ("0.50", "0.000")
    assert last["error"].split(", ")[0] == last["error"].split(", ")[1]
    assert tables.life_rows(get)[5]["decay"] == "25 %"
    assert tables.sink_rows(get)[6]["ratio"].startswith("4.0")


def test_rows_on_published_models_say_what_would_decide_them():
    rows = [claim for claim in LEDGER.claims if claim.out_of_reach is not None]
    assert len(rows) == 15
    assert all("iclbook probe --model DIR" in claim.out_of_reach for claim in rows)
