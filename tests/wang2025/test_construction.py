"""wang2025: the construction with all matrices against functional gradient descent, and the fast models against both."""

import math

import pytest
import torch
from ledgers import GREEN, judge

from iclbook.models.functional_gd import FunctionalGD, HardErasureGD, MultiKernelGD
from iclbook.models.kernels import KERNELS
from iclbook.models.literal_blocks import LiteralBlocks, LiteralStep
from iclbook.models.trained_tf import ProgramBlocks, TrainedBlocks, TrainedStep
from iclbook.papers.wang2025 import construction, contexts
from iclbook.tasks import Batch
from iclbook.tasks.categorical import Anchors, Quadrants
from iclbook.training import cross_entropy


@pytest.fixture
def batch() -> Batch:
    """A few contexts of appendix E, float64."""
    return Batch(*(part.double() for part in contexts.sample_contexts(Anchors(), 6, 9)))


# -- the construction --------------------------------------------------------------------------------------------------


def test_the_construction_is_functional_descent():
    values = construction.construction()
    assert judge("wang2025/construction", values).word in GREEN
    assert values["query-slot/f_difference"] <= 1e-12 < values["query-slot/error"]
    assert values["query-slot/error_among"] <= 1e-10
    # Controls: what each piece is there for.
    assert min(values["construction/none"], values["construction/query"]) > 0.01


# -- the same model, several ways ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("blocks", [1, 2, 4])
@pytest.mark.parametrize("vector", [False, True])
def test_fast_equals_literal_with_gradients(batch, kernel, blocks, vector):
    fast = construction.fast_model(kernel, blocks, 3, vector)
    literal = LiteralBlocks(25, 5, blocks, kernel, vector, erasure="exact").double()
    literal.load_state_dict(fast.state_dict())
    models = [fast, literal]
    if blocks == 1:
        models.append(LiteralStep(25, 5, 1, kernel, vector).double())
        models[-1].load_state_dict(fast.state_dict())
    losses = [cross_entropy(m, batch) for m in models]
    grads = [
        torch.autograd.grad(loss, list(m.parameters()), allow_unused=True)
        for loss, m in zip(losses, models, strict=True)
    ]
    for loss, each in zip(losses[1:], grads[1:], strict=True):
        assert loss.item() == pytest.approx(losses[0].item(), rel=1e-12)
        for a, b in zip(grads[0], each, strict=True):
            if a is None or b is None:  # linear attention has no gamma
                assert kernel == "linear"
            else:
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kernel", KERNELS)
def test_cached_relations_give_the_same_as_tokens(batch, kernel):
    fast = construction.fast_model(kernel, 3, 3)
    cached = contexts.seen_as(batch, KERNELS[kernel], among_keys=True)
    assert cached.query.shape[0] == 0
    torch.testing.assert_close(fast(*cached[:2]), fast(*batch[:2]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("blocks", [2, 4])
def test_the_limit_of_the_softmax_erasure(blocks):
    """HardErasureGD is the literal model at lambda = 1e5, and from the third block on it is not functional descent."""
    batch = Batch(*(part.double() for part in contexts.sample_contexts(Quadrants(N=30), 6, 9)))
    hard = HardErasureGD(20, 5, blocks, "softmax").double()
    hard.initialise(torch.Generator().manual_seed(0))
    literal = LiteralBlocks(20, 5, blocks, "softmax").double()
    literal.load_state_dict(hard.state_dict())
    exactly = FunctionalGD(20, 5, blocks, "softmax").double()
    exactly.load_state_dict(hard.state_dict())
    torch.testing.assert_close(hard(*batch[:2]), literal(*batch[:2]), rtol=1e-10, atol=1e-10)
    gap = (hard(*batch[:2]) - exactly(*batch[:2])).abs().max()
    assert gap <= 1e-10 if blocks == 2 else gap > 1e-3


@pytest.mark.parametrize("kernel", KERNELS)
def test_trained_tf_at_the_constructed_matrices_is_gd(batch, kernel):
    gamma = 0.5 if kernel == "rbf" else 1.0
    n = batch.context.shape[0]
    one = LiteralStep(25, 5, 1, kernel, gamma=gamma).double()
    one.initialise(torch.Generator().manual_seed(1))
    m = one.matrices(10, n)
    tf = TrainedStep(10, 25, 5, kernel).double()
    root = tf.size**0.25 if KERNELS[kernel] == "inner" else 1.0  # undoes the division by sqrt(D)
    scale = 1.0 if kernel == "softmax" else float(n)  # undoes 1/N, which is in W_V already
    with torch.no_grad():
        for name, value in (
            ("W_Q", root * m["W_Q"]),
            ("W_K", root * m["W_K"]),
            ("W_V", scale * m["W_V"]),
            ("P", m["P"]),
        ):
            getattr(tf, name).copy_(value)
        tf.embed.copy_(one.embed)
    torch.testing.assert_close(tf(*batch[:2]), one(*batch[:2]), rtol=1e-10, atol=1e-10)


def test_trained_blocks_at_the_constructed_matrices_are_gd(batch):
    n, blocks = batch.context.shape[0], 2
    gd = LiteralBlocks(25, 5, blocks, "softmax", gamma=1.0).double()
    gd.initialise(torch.Generator().manual_seed(1))
    tf = TrainedBlocks(10, 25, 5, blocks, "softmax").double()
    with torch.no_grad():
        for k in range(blocks):
            m = gd.matrices(10, n, k)
            for head in (1, 2):
                for name in ("W_Q", "W_K", "W_V", "P"):
                    scale = tf.size**0.25 if head == 1 and name in ("W_Q", "W_K") else 1.0
                    key = {"P": f"P{head}"}.get(name, f"{name}{head}")
                    getattr(tf, name)[k, head - 1] = scale * m[key]
            tf.cross_Q[k], tf.cross_K[k], tf.cross_V[k] = m["W_Qc"], m["W_Kc"], m["W_Vc"]
            tf.cross_P[k] = torch.eye(tf.size)
        tf.embed.copy_(gd.embed)
    torch.testing.assert_close(tf(*batch[:2]), gd(*batch[:2]), rtol=1e-10, atol=1e-10)


def test_program_blocks_are_the_published_programs_layers_one_after_the_other(batch):
    d, C, w, blocks = 10, 25, 5, 2
    tf = ProgramBlocks(d, C, w, blocks).double()
    tf.initialise(torch.Generator().manual_seed(0))
    found, size, starts = dict(tf.named_parameters()), d + 3 * w, {}
    for name, p in found.items():
        starts[name] = p.std().item()
        p.data *= 20  # answers that differ
    context, query, _ = batch
    tokens = context.movedim(-1, 0)
    hot = torch.nn.functional.one_hot(tokens[..., -1].long(), C).double()
    rest = torch.cat([torch.full_like(hot, 1 / C), torch.zeros_like(hot[..., :w])], dim=-1)
    asked = torch.cat([query.T, torch.zeros(query.shape[1], C), rest[:, 0]], dim=-1)
    raw = torch.cat(
        [torch.cat([tokens[..., :d], hot, rest], dim=-1), asked[:, None]], dim=1
    )  # (B, N + 1, d + 2 C + d')
    eye = torch.eye(raw.shape[-1]).double()
    h = raw @ torch.block_diag(eye[:d, :d], tf.embed.T, tf.expected.T, eye[:w, :w])
    classes = tf.embed.T.expand(len(h), C, w)

    def attention(queries, keys, q, k, v, out):
        """Heads of query, key and value as columns of one matrix each, joined by one matrix."""
        q, k, v = (x.reshape(-1, x.shape[-1]).T for x in (q, k, v))
        heads = [each.unflatten(-1, (-1, size)).transpose(1, 2) for each in (queries @ q, keys @ k, keys @ v)]
        mixed = torch.softmax(heads[0] @ heads[1].mT, dim=-1) @ heads[2]  # (B, heads, T, D)
        return mixed.transpose(1, 2).flatten(-2) @ torch.cat([each.T for each in out])

    for k in range(blocks):
        h = h + attention(h, h[:, :-1], tf.W_Q[k], tf.W_K[k], tf.W_V[k], tf.P[k])
        h = h + attention(h, classes, *(x[k][None] for x in (tf.cross_Q, tf.cross_K, tf.cross_V, tf.cross_P)))
    torch.testing.assert_close(tf(*batch[:2]).T, h[:, -1, -w:] @ tf.embed, rtol=1e-9, atol=1e-9)
    inputs = {"W_Q": size, "P": 2 * size, "cross_K": w, "cross_P": size}
    for name, n in inputs.items():
        assert starts[name] == pytest.approx((0.002 / blocks / n) ** 0.5, rel=0.1), name
    assert starts["embed"] == pytest.approx(0.8796 * 65**-0.5, rel=0.15)


def test_entries_called_inert_have_no_gradient_and_others_do(batch):
    tf = TrainedStep(10, 25, 5, "softmax", "glorot").double()
    tf.initialise(torch.Generator().manual_seed(0))
    cross_entropy(tf, batch).backward()
    for name, mask in tf.inert().items():
        grad = getattr(tf, name).grad
        assert grad[mask].abs().max() == 0
        assert grad[~mask].abs().min() > 0


def test_one_head_without_mixing_is_the_single_kernel(batch):
    fast = FunctionalGD(25, 5, 3, "rbf", gamma=0.8).double()
    fast.initialise(torch.Generator().manual_seed(0))
    heads = MultiKernelGD(10, 25, 5, 1, 3, "rbf").double()
    with torch.no_grad():
        heads.embed.copy_(fast.embed)
        heads.rate.copy_(fast.rate)
        heads.scales.fill_(math.sqrt(0.8))
    torch.testing.assert_close(heads(*batch[:2]), fast(*batch[:2]), rtol=1e-10, atol=1e-10)
