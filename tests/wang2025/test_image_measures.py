"""Images of unseen classes (wang2025, section 6.2): linear probing, studies, what is recorded."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from wang2025.image_kit import SHORT, TINY

from iclbook.papers.wang2025 import contexts, figure_5_right, images, networks
from iclbook.papers.wang2025.images import GlyphEpisodes, image_study
from iclbook.training.study import train_study

pytestmark = [
    pytest.mark.xdist_group("images"),  # glyphs and networks are made once
    pytest.mark.usefixtures("root"),
]


# -- linear probing ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    """Five small contexts in double precision."""
    generator = torch.Generator().manual_seed(0)
    context = torch.randn(5, 12, 7, generator=generator, dtype=torch.float64).abs()
    query = torch.randn(5, 7, generator=generator, dtype=torch.float64).abs()
    labels = torch.arange(12).repeat(5, 1) % 3
    return context, query, labels


@pytest.mark.parametrize("penalty", [1e-1, 1e-2, 1e-3])
def test_the_regularised_probe_is_the_minimiser(problem, penalty):
    context, query, labels = problem
    found = images.regularised_probe(
        context @ context.mT, (context @ query[..., None])[..., 0], labels, 3, penalty, 3000
    )
    for x, q, y, answer in zip(context, query, labels, found, strict=True):
        w = torch.zeros(7, 3, dtype=torch.float64, requires_grad=True)
        solver = torch.optim.LBFGS([w], max_iter=500, tolerance_grad=1e-10, tolerance_change=1e-14)

        def closure(w=w, x=x, y=y, solver=solver):
            solver.zero_grad()
            loss = cross_entropy(x @ w, y) + penalty / 2 * (w**2).sum()
            loss.backward()
            return loss

        solver.step(closure)
        torch.testing.assert_close(answer, torch.log_softmax(q @ w.detach(), -1), atol=2e-5, rtol=0)


def test_the_coded_probe_is_adam(problem):
    context, query, labels = problem
    found = images.coded_probe(context, query, labels, 3, steps=40, rate=1e-2)
    for x, q, y, answer in zip(context, query, labels, found, strict=True):
        w = torch.zeros(7, 2, dtype=torch.float64, requires_grad=True)
        solver = torch.optim.Adam([w], 1e-2)
        pad = lambda z: torch.nn.functional.pad(z, (0, 1))  # noqa: E731
        for _ in range(40):
            solver.zero_grad()
            cross_entropy(pad(x @ w), y).backward()
            solver.step()
        torch.testing.assert_close(answer, torch.log_softmax(pad(q @ w.detach()), -1), atol=1e-9, rtol=0)


def test_scores_are_hits_and_likelihoods():
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]).log()
    hits, nll = images.scores(p, torch.tensor([0, 1]))
    assert hits.tolist() == [True, False]
    np.testing.assert_allclose(nll, -np.log([0.7, 0.3]), rtol=1e-6)


# -- studies and records ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(root):
    """A tiny study of images of unseen classes, with softmax and with linear attention."""
    drawn = images.glyph_contexts(TINY, SHORT)
    sizes = SimpleNamespace(L=128, seeds=2, held_out=96, batch_size=32, rate=0.05)
    every = {n: image_study(n, drawn, (10, 40), sizes) for n in ("images_unseen0", "images_linear_unseen0")}
    results = {n: train_study(s, "smoke", "cpu", fresh=True, progress=False) for n, s in every.items()}
    return every, results


def test_training_and_test_episodes_share_no_class(measured):
    study = measured[0]["images_unseen0"]
    table = networks.features(study.data.prompts.task.network)
    assert torch.equal(study.data.prompts.task.table(), table[:8])
    assert torch.equal(study.data.prompts.unseen.table(), table[8:])


def test_stored_hits_are_those_of_the_model_on_plain_tokens(measured):
    every, results = measured
    study, r = every["images_unseen0"], results["images_unseen0"]
    tokens = contexts.sample_contexts(study.data.prompts.unseen, 96, contexts.TEST)
    for spec in study.groups:
        model = spec.model(**dict(spec.kwargs)).double()
        for run, parameters in enumerate(images.best_parameters(r.group(spec.name))):
            model.load_state_dict({k: v.double() for k, v in parameters.items()})
            with torch.no_grad():
                logits = model(tokens.context.double(), tokens.query.double())
            nll = cross_entropy(logits.T, tokens.target[0].long(), reduction="none").numpy()
            np.testing.assert_allclose(r[f"{spec.name}/nll"][run], nll, atol=2e-3)


def test_linear_attention_is_gradient_descent_on_a_linear_classifier(measured):
    """Two blocks against two steps of gradient descent on ``A`` in ``f(x) = A x``, by autograd."""
    every, results = measured
    study, r = every["images_linear_unseen0"], results["images_linear_unseen0"]
    p = images.best_parameters(r.group("linear2"))[1]
    tokens = contexts.sample_contexts(study.data.prompts.unseen, 8, contexts.TEST)
    for e in range(8):
        x, y = tokens.context[:, :-1, e].double(), tokens.context[:, -1, e].long()
        embed, a = p["embed"].double(), torch.zeros(images.WIDTH, x.shape[1], dtype=torch.float64)
        for rate in p["rate"].double():
            a.requires_grad_()
            (slope,) = torch.autograd.grad(cross_entropy(x @ a.T @ embed, y), a)
            a = (a - rate * slope).detach()
        logits = tokens.query[:, e].double() @ a.T @ embed
        expected = cross_entropy(logits, tokens.target[0, e].long()).item()
        assert abs(r["linear2/nll"][1, e] - expected) < 1e-3 * (1 + expected)


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("query_label", ["random", "last"])
def test_labels_without_features_are_those_of_the_episodes(part, query_label):
    task = GlyphEpisodes(replace(SHORT, query_label=query_label), part, TINY)
    batch = contexts.sample_contexts(task, 1100, contexts.TEST)
    assert torch.equal(figure_5_right.labels(task, 1100), torch.cat([batch.context[:, -1], batch.target]))
    assert len(networks.weights(TINY)["convolutions.2.weight"]) == networks.features(TINY).shape[-1] == 16
    assert task.shape == task.table().shape[:3]
