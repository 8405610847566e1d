"""wang2025: what stands between a run and a record, on made-up runs and tensors whose right record is known by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from wang2025.kit import failing, judge
from wang2025.test_experiments import made_up, results

from iclbook.models.kernels import KERNELS
from iclbook.models.multi_kernel import MultiKernelGD
from iclbook.models.trained_tf import CODE_SCALE, TrainedBlocks, TrainedStep
from iclbook.papers.wang2025.measures import learned, matrices, new_draws, square, structure
from iclbook.papers.wang2025.runs import contexts, draws, studies
from iclbook.papers.wang2025.runs.published import PublishedAnchors
from iclbook.papers.wang2025.runs.specs import Scores
from iclbook.papers.wang2025.theory import counts, descent, erasure
from iclbook.statistics import bootstrap_error, prediction
from iclbook.store import Results
from iclbook.tasks.categorical import Anchors, Quadrants

# -- contexts -------------------------------------------------------------------------------------------------------------


def test_no_test_context_is_a_training_or_validation_context():
    for chosen, seed in (
        (contexts.Contexts(Anchors(N=3)), 0),
        (draws.UnitContexts(Anchors(N=3), unit=1), draws.contexts_seed(1)),
    ):
        trained, held = chosen.draw(500, seed), chosen.probes(500)
        points = [part.query[0] for part in (trained, held["validation"], held["test"])]
        for i, first in enumerate(points):
            for second in points[:i]:
                assert not np.intersect1d(first.numpy(), second.numpy()).size


def test_units_share_no_context_embedding_or_start():
    first, second = (draws.new_unit("paper", u) for u in (0, 1))
    for a, b in zip(first, second, strict=True):
        assert not torch.equal(a.data.prompts.task.embedding, b.data.prompts.task.embedding)
        assert a.data.seed != b.data.seed
        runs = [{run.seed for group in study.groups for run in group.runs} for study in (a, b)]
        assert not runs[0] & runs[1]
    seeds = {draws.contexts_seed(u) + k for u in range(9) for k in (0, contexts.VALIDATION, contexts.TEST)}
    assert len(seeds) == 27, "no unit's test contexts train another"


def test_the_authors_studies_are_as_long_as_theirs():
    wide = {study.name: study for study in draws.published_unit("paper", 2)}["published2_wide"]
    assert wide.steps * wide.batch_size == 5000 * 2048
    assert wide.data.epochs
    assert wide.data.prompts.task.N == 125
    assert torch.equal(wide.data.prompts.task.embedding, PublishedAnchors().embedding)
    long = draws.long_unit("paper", 2)
    assert long.steps * long.batch_size == 5000 * 2048
    assert long.data.prompts.task.N == 100
    assert {run.rate for group in long.groups for run in group.runs} == {0.001}
    assert {s.rstrip("0123456789") for s in draws.draw_studies("smoke")}, "and defined at once"


# -- theory and models ----------------------------------------------------------------------------------------------------


def test_erasure_weights_of_two_points_and_what_is_left():
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)  # five apart
    aside = math.exp(-0.25 * 25 / 2)
    expected = torch.tensor([[1, aside], [aside, 1]], dtype=torch.float64)
    torch.testing.assert_close(erasure.rbf_weights(x, 0.5), expected)
    for lam in (7.7, 7.72, 1e5):  # on both sides of where the exponential underflows
        direct = torch.exp(-(lam**2) * torch.tensor([[0.0, 25.0], [25.0, 0.0]], dtype=torch.float64) / 2)
        assert torch.equal(erasure.rbf_weights(x, lam), direct)
    half = torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    assert erasure.quality(half).left == 0.5, "half of each position's weight is on the wrong one"
    assert erasure.quality(torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)) == (
        erasure.Erasure(own=0.5, left=0.5)
    )


def test_an_asymmetric_mixing_matrix_by_plain_sums():
    """Appendix H: ``f <- f + sum_m P_m (alpha_m / N) sum_i [w_{y_i} - E(w | f_i)] kappa_m``; and autograd's ``P_m P_m^T`` of ``f = sum_m P_m A_m psi_m``."""
    source = torch.Generator().manual_seed(0)
    x = torch.randn(4, 2, generator=source, dtype=torch.float64)
    w = torch.randn(2, 3, generator=source, dtype=torch.float64)
    y, p = torch.tensor([0, 2, 1]), torch.tensor([[1.0, 2.0], [0.0, 3.0]], dtype=torch.float64)
    model = MultiKernelGD(2, 3, 2, 1, 1, "linear", mixing=True).double()
    with torch.no_grad():
        model.embed.copy_(w)
        model.rate.fill_(1.5)
        model.scales.fill_(1.0)
        model.mix[0] = p
    residual = w[:, y] - w.mean(1, keepdim=True)  # (d', N)
    step = sum(1.5 / 3 * (x[i] @ x[3]) * residual[:, i] for i in range(3))
    context = torch.cat([x[:3], y[:, None].double()], dim=1)[..., None]
    torch.testing.assert_close(model.descend(context, x[3][:, None])[0, 0].detach(), p @ step)
    kappa = [x[:3] @ x.T]
    functional = descent.functional_descent(kappa, y, w, (1.5,), [p])
    torch.testing.assert_close(functional[-1][-1], p @ step)
    free = descent.parameter_descent([x], y, w, (1.5,), mixes=[p])
    torch.testing.assert_close(free[-1][-1], p @ p.T @ step)


@pytest.mark.parametrize("blocks", [1, 3])
def test_initial_entries_are_divided_by_the_number_of_blocks(blocks):
    model = TrainedBlocks(40, 25, 5, blocks)
    model.initialise(torch.Generator().manual_seed(0))
    for name in ("W_Q", "P", "cross_Q"):
        assert float(getattr(model, name).detach().std()) == pytest.approx(CODE_SCALE / blocks, rel=0.03)
    one = TrainedStep(40, 25, 5)
    one.initialise(torch.Generator().manual_seed(0))
    assert float(one.W_Q.detach().std()) == pytest.approx(CODE_SCALE, rel=0.05)


def test_parameters_of_the_language_models_by_hand():
    gd, _, tf, split = counts.models().values()
    d, heads, tokens = 512, 8, 50_257
    assert tuple(gd.positions.shape) == (257, d), "a 257th position asks for the next token"
    assert tuple(tf.positions.shape) == tuple(split.positions.shape) == (256, d)
    values = structure.parameters()
    assert values["params/gd"] == heads * d
    assert values["params/gd_scalar"] == heads * d + heads
    assert values["params/attention_ratio"] == (heads * d + heads + heads * d * d) / (4 * d * d)
    assert counts.inner(gd) == gd.count() - (tokens + 257) * d
    assert failing(judge("q-params", values)) >= {"params/attention_ratio", "params/total_ratio"}


# -- measures -------------------------------------------------------------------------------------------------------------


def test_q_and_ed_of_asymmetric_matrices():
    w_q, w_k, w_v, p = np.zeros((4, 1, 12, 12))
    w_q[0, :2, :2] = [[2.0, 0.5], [0.0, 2.0]]  # B: the second covariate moves the first key
    w_k[0, :2, :2] = [[2.0, 0.0], [0.25, 2.0]]
    w_v[0, range(5), range(2, 7)] = p[0, range(7, 12), range(5)] = 1.0
    w_v[0, 0, 3] = 0.5
    one = matrices.products({"W_Q": w_q, "W_K": w_k, "W_V": w_v, "P": p}, Quadrants())
    np.testing.assert_allclose(one.Q[0], w_k[0, :2, :2].T @ w_q[0, :2, :2])
    assert not np.allclose(one.Q[0], w_k[0, :2, :2].T @ w_k[0, :2, :2])
    expected = np.eye(5)
    expected[0, 1] = 0.5
    np.testing.assert_allclose(one.ED[0], expected)
    np.testing.assert_allclose(matrices.distance(one.A, one.B), math.sqrt(0.25 + 0.0625) / math.sqrt(8.0625))
    np.testing.assert_allclose(matrices.from_transpose(one), 0.5 / math.sqrt(5))


def test_a_transformer_that_is_worse_has_positive_gaps():
    """Trained TF less accurate by 0.2 and worse by 0.3 nats at the largest L."""

    def get(study: str) -> Results:
        gd, tf = made_up(0.6, 1.5), made_up(0.4, 1.8)
        if study.startswith("tf"):
            return results(softmax=tf, rbf=tf)
        return results(softmax=gd, softmax_scalar=gd, linear=made_up(0.25, 3.0), rbf=gd)

    values = learned.figure3(learned.one_block(get, "paper"))
    for kernel in ("softmax", "rbf"):
        assert values[f"fig3/{kernel}_accuracy_gap"] == pytest.approx(0.2)
        assert values[f"fig3/{kernel}_nll_gap"] == pytest.approx(0.3)
    assert values["fig3/linear_behind"] == pytest.approx(0.35)


def test_each_block_is_compared_with_the_one_before():
    def one(accuracy: float, nll: float) -> Scores:
        of = np.array([accuracy - 0.01, accuracy + 0.01])[None]
        return Scores(np.arange(1), of, np.array([nll, nll])[None] + of, np.zeros(2, int))

    by = {1: one(0.5, 1.5), 2: one(0.6, 1.2), 3: one(0.55, 1.3)}
    values = learned.figure4({"narrow": by, "wide": by})
    assert values["fig4/narrow_gain"] == pytest.approx(0.1)
    assert values["fig4/narrow_nll_gain"] == pytest.approx(0.3 - 0.1)
    assert values["fig4/narrow_third_gain"] == pytest.approx(-0.1 + 0.05)
    assert failing(judge("fig4", values)) == {"fig4/narrow_third_gain"}


def kernels(gd: dict[str, float], tf: dict[str, float]) -> dict[str, dict[str, np.ndarray]]:
    return {k: {"GD": np.array([gd[k]] * 2), "TF": np.array([tf[k]] * 2)} for k in gd}


def test_agreement_is_judged_against_the_distance_of_kernels_and_the_wrong_pair():
    found = square.agreement(
        kernels({"a": 0.5, "b": 0.4, "c": 0.2}, {"a": 0.47, "b": 0.4, "c": 0.36}), ["a", "b", "c"]
    )
    assert found.half == pytest.approx(0.05)  # a and b
    assert found.gaps == pytest.approx([0.03, 0, 0.16])
    assert found.crossed == pytest.approx(0.04)  # Trained TF with c, GD with b
    linear = square.linear_agreement(
        kernels({"linear": 0.3, "exponential": 0.4}, {"linear": 0.33, "exponential": 0.4})
    )
    assert linear["fig8/linear_gap"] == pytest.approx(0.03)
    assert linear["fig8/linear_half_distance"] == pytest.approx(0.05)
    assert linear["fig8/linear_crossed_gap"] == pytest.approx(0.07)


def test_figure_8_is_undecided_where_a_wrong_pair_passes():
    rest = {"fig8/exponential_behind": 0.05, "fig8/exponential_behind_se": 0.001, "fig8/linear_behind": 0.1}
    rest |= {"fig8/linear_behind_se": 0.001, "fig8/bound": 0.59, "fig8/bound_se": 0.001}
    for name, crossed in (("gaps", "crossed_gap"), ("nll_gaps", "nll_crossed_gap")):
        half = "half_distance" if name == "gaps" else "nll_half_distance"
        rest |= {f"fig8/{name}": [0.01] * 4, f"fig8/{name}_se": [0.0] * 4, f"fig8/{half}": 0.02}
        rest[f"fig8/{crossed}"] = 0.03
    rest |= {"fig8/linear_gap": 0.0, "fig8/linear_gap_se": 0.0, "fig8/linear_half_distance": 0.02}
    rest["fig8/linear_crossed_gap"] = 0.04
    assert judge("fig8", rest).word == "reproduced (reduced)"
    assert judge("fig8", rest | {"fig8/crossed_gap": 0.015}).word == "too close to call"
    assert judge("fig8", rest | {"fig8/nll_gaps": [0.01, 0.03, 0.0, 0.0]}).word == "partly"


def test_maps_are_compared_with_those_of_other_kernels_and_seeds():
    rng = np.random.default_rng(0)
    grid = rng.random((2, 5, square.GRID, square.GRID))

    def maps(shift_tf: float, shift_gd: float) -> SimpleNamespace:
        return SimpleNamespace(
            gd_runs=grid + shift_gd, tf_runs=grid + shift_tf, shown=(0, 3), top=(0, 1, 2, 3)
        )

    others = {"far": [maps(9.0, 0.7)] * 2, "near": [maps(9.0, 0.3), maps(9.0, 0.4)]}
    values = square.figure9({"rbf": [maps(0.1, 0.0)] * 2, **others})
    assert values["fig9/difference"] == pytest.approx([0.1, 0.1])
    assert values["fig9/crossed_difference"] == pytest.approx([0.2, 0.3]), "of the kernel that comes nearest"
    apart = np.abs(grid[0, [0, 3]] - grid[1, [0, 3]]).mean()
    assert values["fig9/seeds_difference"] == pytest.approx([apart, apart])
    assert values["fig9/correlation"] == pytest.approx([1, 1])


def test_a_transformers_own_kernel_is_told_from_the_others(monkeypatch):
    """Made-up models that answer by their kernel's number."""
    number = {k: i for i, k in enumerate(KERNELS)}

    def model_of_run(kind, kernel, task, parameters):
        def answer(context, query):
            logits = torch.zeros(task.n_classes, query.shape[1], dtype=torch.float64)
            logits[0] = number[kernel] + (0.1 if kind == "TF" else 0.0)
            return logits

        return answer

    monkeypatch.setattr(square, "model_of_run", model_of_run)
    monkeypatch.setattr(square, "stopped_parameters", lambda results, kernel: {"embed": np.zeros(3)})
    values = square.own_kernel(lambda study: None, "smoke", 8)
    first = [math.exp(z) / (math.exp(z) + 19) for z in (0.0, 0.1, 1.0)]
    assert values["q-own-kernel/own"][0] == pytest.approx(first[1] - first[0])
    assert values["q-own-kernel/nearest"][0] == pytest.approx(first[2] - first[1])


# -- new draws ------------------------------------------------------------------------------------------------------------


def unit_results(accuracy: dict[str, float], nll: dict[str, float]):
    """Results of new draws: a group's scores, plus 0.01 for each unit; initialisations 0.002 apart."""

    def group(name: str, unit: int) -> dict[str, np.ndarray]:
        shift = 0.01 * unit + np.array([-0.001, 0.001])
        return {
            "steps": np.array([0]),
            "loss": np.ones((1, 2)),
            "nll_validation": np.ones((1, 2)),
            "nll_test": (nll[name] + shift)[None],
            "accuracy_test": (accuracy[name] + shift)[None],
        }

    def get(study: str) -> Results:
        unit, kind = int(study[3]), study[5:]
        own = {
            name: key.split(" ", 1)[1] for key in accuracy for name in [key] if key.split(" ", 1)[0] == kind
        }
        return Results({f"{g}/{k}": v for name, g in own.items() for k, v in group(name, unit).items()}, {})

    return get


def test_figures_over_units():
    accuracy = {"gd softmax": 0.6, "gd rbf": 0.5, "gd linear": 0.3, "tf softmax": 0.58, "tf rbf": 0.4}
    accuracy |= {"deep softmax-1": 0.5, "deep softmax-2": 0.53, "deep softmax-3": 0.54, "two_tf tf": 0.3}
    nll = {k: 2 - v for k, v in accuracy.items()}
    values = new_draws.figures3_to_5(unit_results(accuracy, nll), "paper")
    assert values["q-new-draws/softmax_accuracy_gap"] == pytest.approx(0.02)
    assert values["q-new-draws/rbf_nll_gap"] == pytest.approx(0.1)
    assert values["q-new-draws/linear_gap"] == pytest.approx(0.3)
    assert values["q-new-draws/third_nll_gain"] == pytest.approx(0.01)
    assert values["q-new-draws/two_block_gap"] == pytest.approx(0.23)
    assert values["q-new-draws/second_gain_se"] == pytest.approx(0, abs=1e-12), "units are paired"
    assert values["q-draw-spread/units"] == pytest.approx(0.01 * np.std(range(5), ddof=1))
    assert values["q-draw-spread/inits"] == pytest.approx(0.001 * math.sqrt(2))
    assert failing(judge("q-new-draws", values)) == {
        "q-new-draws/rbf_accuracy_gap",
        "q-new-draws/rbf_nll_gap",
    }
    assert judge("q-draw-spread", values).word == "yes (reduced)"


def test_a_printed_mean_is_compared_by_a_prediction_interval(monkeypatch):
    ours = np.array([0.69, 0.70, 0.71, 0.70, 0.70] * 2)

    def stopped(results, group):
        unit, reading = int(results[len("published")]), results.split("_")[1]
        shift = {"narrow": -0.1, "wide": 0.0, "printed": 0.2}[reading]
        return SimpleNamespace(
            stopped=lambda what: np.array([ours[unit] + shift + (0.36 if what == "nll" else 0)])
        )

    monkeypatch.setattr(new_draws, "scores", stopped)
    values = new_draws.published(lambda study: study, "paper")
    assert values["q-published/wide_accuracy"] == pytest.approx(0.70 - 0.702)
    # Student's t with nine degrees of freedom, ten units and one more
    reach = 2.262157 * ours.std(ddof=1) * math.sqrt(1 / 10 + 1)
    assert values["q-published/wide_accuracy_reach"] == pytest.approx(reach)

    def beyond(drawn: np.ndarray) -> float:
        mean, low, _ = prediction(drawn, 1)
        return abs(mean - 0.702) - (mean - low)

    assert values["q-published/wide_accuracy_se"] == pytest.approx(bootstrap_error(beyond, ours), rel=1e-9)
    found = judge("q-published", values)
    assert found.word == "it depends"
    assert found.reading == "$N = 125$ (published code)"
    assert failing(judge("q-printed-kernel", values)) == {"q-printed-kernel/accuracy", "q-printed-kernel/nll"}

    # A mean that lies just beyond what another draw could reach decides nothing: its distance from that end has an error over draws.
    ours = ours - (0.70 - 0.702) - 0.2 + 1.05 * reach
    values = new_draws.published(lambda study: study, "paper")
    beyond = values["q-printed-kernel/accuracy"] - values["q-printed-kernel/accuracy_reach"]
    assert 0 < beyond < values["q-printed-kernel/accuracy_se"]
    ours = ours * 0 + ours.mean()
    assert new_draws.published(lambda study: study, "paper")["q-printed-kernel/accuracy_se"] == 0


def test_sizes_of_figure_4_reach_the_third_block():
    assert all(3 in sizes.depths for sizes in studies.SIZES.values())
    assert Quadrants().width == 5
