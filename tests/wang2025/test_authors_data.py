"""wang2025: whatever is called the authors' own is what their program draws, by Threefry and JAX's laws written out here once more, one number at a time."""

import math

import numpy as np
import pytest
import torch
from scipy.special import erfinv

from iclbook.claims import printed
from iclbook.papers.wang2025.contexts import TEST, VALIDATION, PublishedAnchors, PublishedContexts, best_records
from iclbook.papers.wang2025.figure_9_data import PublishedQuadrants, figure_9_context
from iclbook.papers.wang2025.studies import synthetic_studies
from iclbook.store import load

WORD = 2**32
#: The authors' validation contexts, and as many test contexts.
HELD_OUT = 2048
KEY_5, KEY_0 = (0, 5), (0, 0)


def cipher(key: tuple[int, int], a: int, b: int) -> tuple[int, int]:
    """Threefry-2x32 of 20 rounds (Salmon et al. 2011) in whole numbers."""
    schedule = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = (a + key[0]) % WORD, (b + key[1]) % WORD
    for r in range(20):
        turn = (13, 15, 26, 6, 17, 29, 16, 24)[r % 8]
        a = (a + b) % WORD
        b = ((b << turn | b >> (32 - turn)) % WORD) ^ a
        if r % 4 == 3:
            s = r // 4 + 1
            a, b = (a + schedule[s % 3]) % WORD, (b + schedule[(s + 1) % 3] + s) % WORD
    return a, b


def word(key: tuple[int, int], n: int, i: int) -> int:
    """Number i of n random words."""
    half = (n + 1) // 2
    beside = half + i % half
    return cipher(key, i % half, beside if beside < n else 0)[i // half]


def child(key: tuple[int, int], i: int, of: int = 2) -> tuple[int, int]:
    """Key i of a key that is split."""
    return word(key, 2 * of, 2 * i), word(key, 2 * of, 2 * i + 1)


def unit(key: tuple[int, int], n: int) -> list[float]:
    """n numbers of [0, 1)."""
    return [(word(key, n, i) >> 9) / 2**23 for i in range(n)]


def normal(key: tuple[int, int], *shape: int) -> np.ndarray:
    """Standard normals, by the inverse of their law."""
    u = np.array(unit(key, math.prod(shape)))
    return math.sqrt(2) * erfinv(np.maximum(2 * u - 1, -1 + 2**-24)).reshape(shape)


def ranked(key: tuple[int, int], n: int, first: int) -> list[int]:
    """The first of a permutation of n."""
    beside = child(key, 1)
    return sorted(range(n), key=lambda i: word(beside, n, i))[:first]


def label(u: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Categories by Gumbel's numbers."""
    return (logits - np.log(-np.log(np.maximum(u.reshape(logits.shape), 1.2e-38)))).argmax(-1)


def context(key: tuple[int, int], w: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, int]:
    """One context of ``create_cat_data_high_dim``: covariates with the query ``(n + 1, 10)``, labels ``(n,)``, the query's label."""
    own = [child(key, i, 7) for i in range(7)]
    x = np.concatenate([2 * np.array(unit(own[i], rows * 10)).reshape(rows, 10) - 1 for i, rows in ((1, n), (2, 1))])
    chosen, anchors = ranked(own[3], 25, 5), normal(own[4], 5, 10)
    between = ((anchors[:, None] - anchors) ** 2).sum(-1) + np.diag([np.inf] * 5)
    kernel = 0.1 ** (((x[:, None] - anchors) ** 2).sum(-1) / between.min(1))
    logits = 10 * kernel @ w[:, chosen].T @ w
    y, target = (label(np.array(unit(own[i], z.size)), z) for i, z in ((5, logits[:n]), (6, logits[n:])))
    return x, y, int(target[0])


W_E = normal(child(child(KEY_5, 3, 4), 1), 5, 25)


@pytest.mark.parametrize(("n_examples", "seed", "n", "place"), [
    (125, TEST, 2048, 0), (125, TEST, 2048, 2047), (125, VALIDATION, 2048, 1), (10, TEST, 2048, 5),
    (125, 0, 2048, 2047), (10, 0, 8192, 3), (10, 0, 32768, 32767),
])  # fmt: skip
def test_contexts_are_the_authors(n_examples, seed, n, place):
    task = PublishedAnchors(N=n_examples)
    np.testing.assert_allclose(task.embedding.numpy(), W_E, rtol=1e-5, atol=1e-6)
    drawn = PublishedContexts(task).draw(n, seed)
    key = child(KEY_5, {TEST: 0, VALIDATION: 1, 0: 2}[seed], 4)
    x, y, target = context(child(key, place, n), W_E, n_examples)
    np.testing.assert_allclose(drawn.context[:, :10, place], x[:-1], atol=1e-6)
    np.testing.assert_allclose(drawn.query[:, place], x[-1], atol=1e-6)
    assert drawn.context[:, 10, place].tolist() == y.tolist()
    assert drawn.target[0, place] == target


def test_what_jax_itself_drew():
    """Sums over what JAX 0.4.30 drew by the authors' ``create_cat_data_high_dim`` with their seed."""
    wide = PublishedContexts(PublishedAnchors(N=125)).draw(HELD_OUT, TEST)
    assert wide.context[:, 10].double().sum() == 3486113
    assert wide.target.sum() == 28213
    assert float(wide.context[:, :10].double().sum()) == pytest.approx(-624.2919235229492, abs=1e-6)


def test_whatever_is_called_the_authors_is_on_all_of_their_contexts():
    """Another number of contexts is another draw: none of 1,024 test contexts is among the authors' 2,048."""
    few, theirs = (PublishedContexts(PublishedAnchors(N=3)).draw(n, TEST) for n in (1024, HELD_OUT))
    rows = {tuple(query) for query in theirs.query.T.tolist()}
    assert not rows & {tuple(query) for query in few.query.T.tolist()}
    numbers = printed("wang2025")["authors/L"]
    named = {name: s for name, s in synthetic_studies("paper").items() if name.startswith("published_")}
    for name, study in named.items():
        if name not in ("published_map", "published_quadrants"):  # contexts of ours on the authors' W_e
            assert isinstance(study.data.prompts, PublishedContexts), name
            assert study.data.n in numbers, name
            assert {(type(g.observe.contexts), g.observe.n) for g in study.groups} == {(PublishedContexts, HELD_OUT)}


@pytest.mark.parametrize(
    ("name", "group"), [("published_two_tf_L2048", "tf"), ("published_blocks_L32768", "softmax-2")]
)
def test_stored_scores_are_those_of_the_stored_parameters_on_the_authors_contexts(name, group):
    """Those of figure 5 (left); Trained TF's are kept in half precision at its last records. On 1,024 contexts that are not theirs it scores otherwise."""
    (spec,) = synthetic_studies("paper")[name].of_groups([group]).groups
    arrays = load("wang2025", "paper", name).group(group)
    best = best_records(arrays)[0]
    kept = {k: arrays[k][best, 0] for k in spec.keep if k in arrays}
    if spec.keep_at:
        kept = {k: arrays[f"kept {k}"][spec.keep_at.index(arrays["steps"][best]), 0] for k in spec.keep}
    model = spec.build()
    model.load_state_dict({k: torch.tensor(v).float() for k, v in kept.items()})
    contexts = spec.observe.contexts
    with torch.no_grad():
        theirs, others = (spec.observe(model, {"test": contexts.draw(n, TEST)})["nll_test"] for n in (HELD_OUT, 1024))
    assert float(theirs) == pytest.approx(arrays["nll_test"][best, 0], abs=2e-3)
    assert abs(float(theirs - others)) > 0.02


def test_figure_9s_context_and_both_embeddings_are_the_authors():
    """``gen_scan_data`` of ``predict_sample_space_max.py`` at seed 0, whose quadrants 0 to 3 are bottom left, top left, bottom right, top right."""
    np.testing.assert_allclose(
        PublishedQuadrants(source="training").embedding,
        normal(child(child(KEY_5, 3, 4), 1), 5, 20),
        rtol=1e-5,
        atol=1e-6,
    )
    scan = child(child(child(KEY_0, 0), 0, 3), 1)
    keys = [child(child(scan, 0), i, 7) for i in range(7)]
    w = normal(keys[1], 5, 20)
    np.testing.assert_allclose(PublishedQuadrants().embedding, w, rtol=1e-5, atol=1e-6)
    x, chosen = 2 * np.array(unit(keys[2], 200)).reshape(100, 2) - 1, ranked(keys[4], 20, 4)
    quadrant = [(2 if a >= 0 else 0) + (3 if b >= 0 else 2) - 2 for a, b in x]
    logits = w[:, [chosen[q] for q in quadrant]].T @ w
    tokens, categories = figure_9_context()
    np.testing.assert_allclose(tokens[:, :2], x, atol=1e-6)
    assert tokens[:, 2].tolist() == label(np.array(unit(keys[5], logits.size)), logits).tolist()
    assert categories.tolist() == [chosen[q] for q in (3, 1, 0, 2)]
    assert (w.T @ w)[categories].argmax(-1).tolist() == [7, 18, 10, 7], "as appendix F names them"
