"""The judge of endings on endings whose grades are known, and the measures of the language models on made-up results."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from wang2025.kit import STORY, failing, judge

from iclbook.models.gd_language import GDLanguage
from iclbook.papers.wang2025.figures import language as figures
from iclbook.papers.wang2025.measures import language_exact, language_exam, language_judge, language_models
from iclbook.papers.wang2025.measures.language_models import Languages, paired, repetition
from iclbook.papers.wang2025.runs.language import SIZES, TASKS, beginnings
from iclbook.store import Results
from iclbook.tasks.stories import Kind, Stories
from iclbook.tasks.story_grammar import END, split_template

FULL = Stories()
SMALL = TASKS["smoke"]
CUT = STORY.index("first") + 3


def grade(text, scale=1.0):
    """Grades of the story with this ending, beside two true ones."""
    own = STORY[:CUT] + text.split()
    true = language_exam.true_stories(FULL, 2)
    found = language_judge.grades(FULL.grammar, [own, *true[0]], [CUT, *true[1]], scale)
    return {name: float(values[0]) for name, values in found.items()}


TRUE = " ".join(STORY[CUT:])


def test_a_true_ending_has_full_marks():
    found = grade(TRUE)
    assert [found[g] for g in ("grammar", "consistency", "plot")] == [10, 10, 10]
    assert found["repeated"] == 0
    assert found["overall"] == pytest.approx((30 + found["creativity"]) / 4)


def test_each_grade_sees_its_own_mistake():
    words = len(STORY) - 1 - CUT
    wrong = grade(TRUE.replace("so tom asked", "so asked tom"))
    assert wrong["grammar"] == pytest.approx(10 * (1 - 7 / words))
    assert wrong["plot"] == pytest.approx(5 * 3 / 4 + 5), (
        "of help, result, joy, moral, end one step comes from nothing"
    )
    other = grade(TRUE.replace("tom learned", "max learned"))
    # tom, anna; kite; max: one of four mentions
    assert other["consistency"] == pytest.approx(5 + 5 * 3 / 4)
    assert (other["grammar"], other["plot"]) == (10, 10)
    mended = grade(TRUE.replace("to fix it", "to mend it"))
    assert mended["consistency"] == pytest.approx(5), "the sentence that was cut says nothing"
    assert mended["plot"] == 10
    strange = grade(TRUE.replace("tom learned to be patient", "tom learned to be brave"))
    assert strange["plot"] == pytest.approx(5 * 3 / 4), (
        "the moral of another trouble: neither a step nor a close"
    )
    open_end = grade(TRUE.replace(" " + END, ""))
    assert open_end["plot"] == pytest.approx(5 * 3 / 4)
    again = grade(TRUE.replace(END, "tom learned to be patient . " * 4 + END))
    assert again["repeated"] > 0.3
    assert again["plot"] < 10


def test_an_ending_of_nothing_has_no_marks():
    found = grade("")
    assert {
        name: found[name] for name in ("grammar", "consistency", "plot", "creativity", "repeated")
    } == dict.fromkeys(("grammar", "consistency", "plot", "creativity", "repeated"), 0)


@pytest.mark.parametrize(("task", "n"), [(FULL, 40), (SMALL, 12)])
def test_the_judges_order(task, n):
    found = language_exam.examined(task, n)
    true, foreign, shuffled = (found[name] for name in language_exam.ORDER[:3])
    assert {name: true[name] for name in language_judge.GRADES} == pytest.approx(
        dict.fromkeys(language_judge.GRADES, 10)
    )
    assert foreign["grammar"] == foreign["plot"] == shuffled["grammar"] == shuffled["consistency"] == 10
    assert foreign["consistency"] < 8
    assert shuffled["plot"] < 5
    moral = found["repeated moral"]
    assert moral["grammar"] > 9
    assert moral["creativity"] < 5
    assert moral["plot"] == 0


def test_a_judge_that_is_none_fails_its_examination(monkeypatch):
    monkeypatch.setattr(language_judge, "plot_grade", lambda grammar, e: 10.0)
    monkeypatch.setattr(language_judge, "consistency_grade", lambda grammar, e: 10.0)
    with pytest.raises(ValueError, match="the judge's order"):
        language_exam.examined(SMALL, 12)


def test_every_sentence_of_true_stories_is_told_by_its_own_template():
    for story in language_exam.true_stories(FULL, 30)[0]:
        kinds = [
            language_judge.parse(FULL.grammar, tuple(s)).kind for s in language_judge.sentences(story[:-1])
        ]
        assert kinds[0] == "open"
        assert kinds[-1] == "moral"
        assert all(b in FULL.grammar.graph[a] for a, b in itertools.pairwise(kinds))


def test_a_sentence_is_read_by_the_first_template_that_can_say_it():
    """Against a plain walk through all templates; of the words of a bigram walk few are sentences."""
    grammar, found = SMALL.grammar, set()
    stories = language_exam.imitations(SMALL, 12)
    for story in stories["true"] + stories["bigram"]:
        for sentence in map(tuple, language_judge.sentences(story)):
            said = language_judge.parse(grammar, sentence)
            every = ((kind, text) for kind, texts in grammar.templates.items() for text in texts)
            plain = next(
                (
                    (kind, names or belongs, text)
                    for kind, text in every
                    for names, belongs, items in [split_template(text)]
                    if len(items) == len(sentence)
                    and language_judge._slots(grammar, items, sentence) is not None
                ),
                None,
            )
            assert plain == (None if said is None else said[:3])
            found.add(plain is None)
    assert found == {True, False}


def test_beginnings_stop_within_a_sentence():
    whole, places = language_exam.true_stories(FULL, 40)
    starts = beginnings(FULL, 40)
    for story, place, column in zip(whole, places, starts.T, strict=True):
        assert FULL.text(column) == story[:place]
        assert abs(place - len(story) / 2) < 4
        assert story[place - 1] not in (".", END)
        assert (
            len(language_judge.sentences(story[:place])[-1])
            < len(language_judge.sentences(story[:-1])[0]) + 15
        )


# -- measures on made-up results ----------------------------------------------------------------------------------------

#: Excess loss of each model by kind (nats a token), and which imitation it writes.
MADE = {
    "linear": ((0.1, 0.1, 0.1, 0.3), "shuffled sentences"),
    "rbf": ((0.1, 0.1, 0.1, 0.5), "shuffled words"),
    "gd": ((0.1, 0.1, 0.1, 0.4), "bigram"),
    "linear-ff": ((0.0, 0.1, 0.1, 0.1), "foreign"),
    "rbf-ff": ((0.0, 0.1, 0.1, 0.2), "shuffled sentences"),
    "gd-ff": ((0.0, 0.1, 0.02, 0.0), "foreign"),
    "tf": ((0.0, 0.02, 0.0, 0.0), "foreign"),
    "tf-split": ((0.0, 0.02, 0.0, 0.0), "true"),
}


def made(model):
    return MADE.get(model, MADE["gd"])


def fake(study):
    """Results of a study whose models are as :data:`MADE` says, at two records before that worse."""
    models, sizes = Languages(None, "smoke"), SIZES["smoke"]
    loss, count = models.exact()
    tell = language_exam.imitations(SMALL, sizes.endings)
    arrays = {}
    for name in (n for n, s in language_models.STUDIES.items() if s == study):
        excess, way = made(name)
        # the same everywhere but for the number of tokens, whose mean defines nats a token
        each = (
            loss + np.array(excess) * count.sum(1).mean() * (1 + 0.1 * np.sin(np.arange(len(loss))))[:, None]
        )
        arrays[f"{name}/nll"] = np.stack([each + 3, each + 1, each])[:, None]
        said = torch.full((SMALL.context + 1, sizes.endings), -1)
        for i, story in enumerate(tell[way]):
            said[: len(story), i] = torch.tensor([SMALL.grammar.index[token] for token in story])
        for way in ("beam", "coded", "sampled") if name in language_models.HEADLINE else ("beam",):
            arrays[f"{name}/ending_{way}"] = said.numpy()[None, None].repeat(3, 0).astype(np.float32)
    return Results(arrays, {})


@pytest.fixture(scope="module")
def models():
    kept = {}
    return Languages(lambda study: kept.setdefault(study, fake(study)), "smoke")


def test_excess_loss_is_what_was_put_in(models):
    factor = np.mean(1 + 0.1 * np.sin(np.arange(SIZES["smoke"].scored)))
    for name, (excess, _) in MADE.items():
        assert models.excess(name).mean((0, 1)) == pytest.approx(np.array(excess) * factor, abs=1e-9)


def test_single_words_lose_what_the_context_tells(models):
    lost = models.single_words().mean(0)
    assert lost.sum() > 2
    assert lost[Kind.SYNTAX] > lost[Kind.FREE]


def test_the_tables_measure_what_was_put_in(models):
    found = language_models.tables(models)
    overall = {name: models.overall(name).mean() for name in language_models.ROWS}
    assert overall["tf-split"] == pytest.approx(10)
    assert found["language/true_gap"] == pytest.approx(0)
    assert found["language/tf_gap"] == pytest.approx(overall["tf"] - overall["gd"])
    factor = np.mean(1 + 0.1 * np.sin(np.arange(SIZES["smoke"].scored)))
    assert found["language/tf_gap_nll"] == pytest.approx(0.68 * factor)
    assert found["language/ff_left"] == pytest.approx(-(overall["tf"] - overall["gd"]) / 4)
    assert found["language/ff_left_nll"] == pytest.approx((0.1 - 0.68 / 4) * factor)


def test_the_kernels_measure_what_was_put_in(models):
    found = language_models.kernels(models)
    overall = {name: models.overall(name).mean() for name in language_models.ROWS}
    assert found["language/order"] == pytest.approx(
        [overall["linear"] - overall["gd"], overall["gd"] - overall["rbf"]]
    )
    assert found["language/order_ff"] == pytest.approx(0)
    factor = np.mean(1 + 0.1 * np.sin(np.arange(SIZES["smoke"].scored)))
    assert found["language/ff_gain_nll"] == pytest.approx(np.array([0.58, 0.3, 0.4]) * factor)
    assert found["language/bind_over_half"] == pytest.approx((0.08 - 0.1 / 2) * factor)


def test_depth_and_mixing(models):
    """Models that :data:`MADE` does not name are as GD: two blocks are 0.58 behind one, and without P_m nothing is lost."""
    assert language_models.mixing(models)["language/no_mixing"] == pytest.approx(1)
    found = language_models.depth(models)
    factor = np.mean(1 + 0.1 * np.sin(np.arange(SIZES["smoke"].scored)))
    way = models.single_words().sum(1).mean() - 0.7 * factor
    assert found["language/depth_gd_nll"] == pytest.approx(-0.58 * factor / way)


def test_reasons_are_differences_of_excess_losses(models):
    """Models that :data:`MADE` does not name lose 0.7, the Transformer with standard heads 0.02, GD with feed-forward 0.12."""
    found = language_models.reasons(models)
    factor = np.mean(1 + 0.1 * np.sin(np.arange(SIZES["smoke"].scored)))
    expected = {
        "equal_ff": 0.12 - 0.7,
        "equal_gd": 0.7 - 0.02,
        "coded_start": 0.7 - 0.02,
        "summed": 0.7 - 0.12,
        "ff_gain_apart": (0.7 - 0.12) - (0.7 - 0.02),
    }
    for name, value in expected.items():
        assert found[f"language/{name}"] == pytest.approx(value * factor, abs=1e-9), name


def test_one_run_is_as_unsure_as_runs_of_its_kin(models):
    """What several seeds of GD spread is added for each of two models with one seed; a model with several has its own spread."""
    items = np.linspace(0, 1, 8)
    seeds = np.array([0.0, 1.0, 2.0])[:, None]
    values = {
        "gd": items + seeds,
        "linear": items[None] + 5,
        "rbf": items[None] + 3,
        "gd-ff": items + 10 * seeds,
    }
    assert models.spread("linear", values.__getitem__) == pytest.approx(1)
    assert models.spread("gd-ff", values.__getitem__) == pytest.approx(10)
    mean, error = models.compared(values.__getitem__, (1, "linear"), (-1, "rbf"))
    assert mean == pytest.approx(2)
    assert error == pytest.approx(np.sqrt(2)), "items cancel, two spreads of 1 do not"
    assert models.compared(values.__getitem__, (1, "gd-ff"), (-1, "gd"))[1] == pytest.approx(9 / np.sqrt(3))
    assert [language_models.kin(n) for n in ("tf-split-no-ff", "rbf-ff", "gd-ff-2", "gd-wide", "rbf")] == [
        "tf-split",
        "gd-ff",
        "gd-ff",
        "gd",
        "gd",
    ]


def test_tables_hold_what_was_put_in(models):
    rows = {row["ending"]: row for row in figures.figure14(models).rows}
    assert rows["the true one"]["overall"] == "10.0 (8.1)"
    assert rows["Transformer, standard heads"]["grammar"] == "10.0", "nothing printed beside it"
    assert rows["RBF GD"]["grammar"].endswith("(3.8)")
    every = figures.every_model(models).rows
    assert [row["model"] for row in every] == [figures.NAMES[name] for name in language_models.STUDIES]
    factor = np.mean(1 + 0.1 * np.sin(np.arange(SIZES["smoke"].scored)))
    assert every[6]["excess"] == f"{0.02 * factor:.3f}"
    assert every[6]["bind"] == f"{0.02 * factor:.3f}"


def test_paired_errors():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(1, 50)) * 10  # what items share cancels
    a, b = common + rng.normal(size=(3, 50)), common + 1 + rng.normal(size=(2, 50))
    mean, error = paired((1, b), (-1, a))
    assert abs(mean - 1) < 4 * error < 2
    one = paired((1, a[:1]), (-1, b[:1]))
    assert one[1] == pytest.approx((a[0] - b[0]).std(ddof=1) / np.sqrt(50))


def test_repetition_compares_halves():
    marks = {g: np.array([[1.0, 9.0, 2.0, 8.0]]) for g in ("grammar", "consistency", "plot")}
    mean, error = repetition(marks | {"repeated": np.array([[0.5, 0.1, 0.3, 0.1]])})
    assert mean == pytest.approx(0.3)
    assert error == pytest.approx(0.1)


def test_figure_7_and_its_mutations(monkeypatch):
    values = language_exact.figure7()
    assert judge("fig7", values).word in {"reproduced"}

    right = GDLanguage.attention
    monkeypatch.setattr(GDLanguage, "attention", lambda m: right(m).roll(1, -2))
    assert failing(judge("fig7", language_exact.figure7())) == {"language/formula"}
