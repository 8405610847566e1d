"""agarwal2025: measures of runs and heads made by hand, and sentences recounted with nothing but softmax and autograd."""

import math
from collections import defaultdict

import numpy as np
import pytest
import torch

from iclbook.papers.agarwal2025 import sentences
from iclbook.papers.agarwal2025.closed_forms_checked import random_case


def attended(s, v, w, mask):
    """Attention and probabilities of equations 4 to 8, written out."""
    alpha = torch.softmax(s if mask is None else s.masked_fill(~mask, -math.inf), -1)
    return alpha, torch.softmax(alpha @ v @ w.W_O.T + w.b, -1)


def lost(s, v, case):
    p = attended(s, v, case.w, case.mask)[1]
    return -torch.stack([p[i, y].log() for i, y in enumerate(case.y.tolist())])


def advantages(alpha, u, v):
    """``A_ij``: how far ``u_i v_j`` lies below what attention expects of it."""
    b = torch.stack([torch.stack([ui @ vj for vj in v]) for ui in u])
    return (alpha * b).sum(1)[:, None] - b


def upstream(p, case):
    rows = [p[i] - torch.eye(p.shape[1], dtype=p.dtype)[y] for i, y in enumerate(case.y.tolist())]
    return torch.stack(rows) @ case.w.W_O


def large(a, among=None):
    """Entries above a thousandth of the largest."""
    sizes = a.abs() if among is None else a.abs() * among
    return sizes > 1e-3 * sizes.max()


def recounted(case, found):
    """Sections 1.1, 3.1, 3.2, 4.2 and 4.4 on one head."""
    x, w, small = case.x, case.w, 1e-5
    v = (x @ w.W_V.T).requires_grad_()
    s = (x @ w.W_Q.T) @ (x @ w.W_K.T).T / math.sqrt(w.W_Q.shape[0])
    before = lost(s, v, case)
    (slope,) = torch.autograd.grad(before.sum(), v)
    v, before = v.detach(), before.detach()
    alpha, p = attended(s, v, w, case.mask)
    u, step = upstream(p, case), -small * slope
    a, see = advantages(alpha, u, v), alpha > 1e-9
    assert torch.allclose(slope, alpha.T @ u, atol=1e-12)
    along = torch.stack([step[j] @ (alpha[:, j] @ u) for j in range(len(x))])
    found["signs/values"] += (along < 0)[large(along)].tolist()
    found["prose/toward"] += (along > 0)[large(along)].tolist()
    g = alpha @ v
    users = torch.stack([alpha[:, j] @ g / alpha[:, j].sum() for j in range(len(x))])
    toward = (step * (users - v)).sum(1)
    found["prose/toward_contexts"] += (toward > 0)[large(toward)].tolist()
    for j in range(len(x)):
        alone = v.clone()
        alone[j] += step[j]
        change = lost(s, alone, case) - before
        if large(along)[j]:
            found["prose/joint_sum"].append(float(change.sum()) < 0)
        found["prose/joint_all"] += (change < 0)[see[:, j] & large(change)].tolist()
        own = (advantages(alpha, u, alone) - a)[:, j]
        clear = see[:, j] & (a[:, j] > 0) & large(a, see)[:, j] & large(own)
        found["signs/own"] += (own > 0)[clear].tolist()
        found["signs/feedback3_own"] += (own > 0)[clear & (u @ step[j] < 0)].tolist()
    moved = v + small * step / step.abs().max()
    grown = advantages(alpha, upstream(attended(s, moved, w, case.mask)[1], case), moved) - a
    helped = see & (a > 0) & large(a, see)
    found["signs/feedback3"] += (grown > 0)[helped & large(grown, see)].tolist()
    held = advantages(alpha, u, moved) - a
    found["signs/feedback3_held"] += (held > 0)[helped & large(held, see)].tolist()
    logits = [h @ w.W_O.T + w.b for h in (g, g - small * u)]
    right = torch.stack([(logits[1] - logits[0])[i, y] for i, y in enumerate(case.y.tolist())])
    found["prose/u_logit"] += (right > 0)[large(right)].tolist()


def test_sentences_about_values_are_recounted(monkeypatch):
    """The same shares on twelve heads, but for one entry in a hundred that stands at the edge of what is clear."""
    heads = [random_case(index) for index in range(12)]
    monkeypatch.setattr(sentences, "cases", lambda n: iter(heads))
    said = sentences.signs(12)
    found = defaultdict(list)
    for case in heads:
        recounted(case, found)
    assert len(found) == 10
    for name, entries in found.items():
        assert len(entries) >= 60, name
        assert said[name] == pytest.approx(np.mean(entries), abs=0.01), name
