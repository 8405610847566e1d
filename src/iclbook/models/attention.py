"""One-layer multi-head attention as he2025 trains it, and its linear and other-activation relatives."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from ..native import FLOAT, LONG, POINTER, library
from ..tasks.linear_regression import Layout

#: Prompts that the C code takes side by side; a batch is a multiple.
LANES = 16
#: Largest number of sums that a run keeps for its gradient, ``H D^2``: they lie on the stack.
LARGEST = 4096
MATRICES = ("query", "key", "value", "output")


def _normalise(f: Tensor) -> Tensor:
    return f / f.sum(-2, keepdim=True)


#: Activation of scores ``(..., L, B)`` along the keys. All but ``linear`` are normalised, ``f(s_i) / sum_j f(s_j)`` (he2025, "Ablation
#: Study"; the paper leaves the constant C open, here C = 1). ``linear`` is ``s_i / L`` (he2025, "Linear vs Softmax Attention").
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda s: torch.softmax(s, dim=-2),
    "affine": lambda s: _normalise(1 + s),
    "square": lambda s: _normalise((1 + s) ** 2),
    "tanh": lambda s: _normalise(1 + torch.tanh(s)),
    "linear": lambda s: s / s.shape[-2],
}


def dot(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """Sum of ``a * b`` over a short axis, written out term by term: the compiler fuses the terms into one pass along the batch."""
    return sum(x * y for x, y in zip(a.unbind(axis), b.unbind(axis), strict=True))


def attend(kq: Tensor, ov: Tensor, context: Tensor, query: Tensor, activation: str = "softmax") -> Tensor:
    """Prediction from circuits: ``yhat = sum_h OV^(h) Z act(Z^T KQ^(h) z_q)`` (he2025, the closed form of ``yhat_q``).

    K^T Q is folded into the query first and the values are read after folding O V, so keys and values of all tokens are never formed:
    same parameters, same gradients, a fraction of the work. The query is not among the keys, as in the paper's closed form.

    Args:
        kq: ``(H, D, D)`` key-query circuits, the score scale included.
        ov: ``(H, N, D)`` rows of the output-value circuits that are read out.
        context: ``(L, D, B)`` tokens.
        query: ``(d, B)`` covariate of the query token, whose response is 0.
        activation: a key of :data:`ACTIVATIONS`.

    Returns:
        ``(N, B)`` predictions.
    """
    d = query.shape[0]
    # Matrix products here and in circuits(), sums term by term below: the compiler would recompute a fused sum for every key.
    folded = (kq[:, :, :d].flatten(0, 1) @ query).unflatten(0, kq.shape[:2])  # (H, D, B)
    scores = dot(folded[:, None], context, axis=-2)  # (H, L, B)
    weights = ACTIVATIONS[activation](scores)  # (H, L, B)
    outputs = []
    for n in range(ov.shape[1]):
        values = dot(ov[:, n, None, :, None], context, axis=-2)  # (H, L, B)
        outputs.append((weights * values).sum((0, 1)))  # (B,)
    return torch.stack(outputs)


class Attention(nn.Module):
    """Multi-head attention with separate Q, K, V, O matrices of size ``(d + N) x (d + N)`` per head (he2025, "Multi-Head Softmax Attention").

    Args:
        d: covariate dimension.
        n_heads: number of heads H.
        n_tasks: number of responses N.
        activation: a key of :data:`ACTIVATIONS`.
        score_scale: ``"none"`` as printed, ``"code"``: scores divided by ``sqrt(d + N)``, as the published code does, or a positive factor: the
            constant C of the other activations.
        query_among_keys: let the query token ``(x_q, 0)`` be attended to as well, as the printed matrix form with a causal mask reads.
    """

    def __init__(
        self,
        d: int,
        n_heads: int,
        n_tasks: int = 1,
        activation: str = "softmax",
        score_scale: str | float = "none",
        query_among_keys: bool = False,
    ) -> None:
        super().__init__()
        assert n_heads >= 1, n_heads
        assert activation in ACTIVATIONS, activation
        named = isinstance(score_scale, str)
        assert score_scale in ("none", "code") or (not named and score_scale > 0), score_scale
        self.width = d + n_tasks  # D
        self.n_tasks = n_tasks
        self.activation = activation
        names = {"none": 1.0, "code": 1 / math.sqrt(self.width)}
        self.scale = names[score_scale] if named else float(score_scale)
        self.query_among_keys = query_among_keys
        for name in ("query", "key", "value", "output"):
            self.register_parameter(name, nn.Parameter(torch.zeros(n_heads, self.width, self.width)))

    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """PyTorch's default for linear layers, drawn from the run's own generator and multiplied by ``scale``.

        Q, K, V are uniform within ``1/sqrt(D)``; O joins H heads of width D, so it is uniform within ``1/sqrt(H D)``.
        """
        n_heads = self.query.shape[0]
        bounds = {"query": self.width, "key": self.width, "value": self.width, "output": n_heads * self.width}
        with torch.no_grad():
            for name, fan_in in bounds.items():
                bound = scale / math.sqrt(fan_in)
                getattr(self, name).uniform_(-bound, bound, generator=generator)

    def circuits(self) -> dict[str, Tensor]:
        """``kq``: ``(H, D, D)`` = K^T Q, without the score scale; ``ov``: ``(H, N, D)``, the read-out rows of O V."""
        return {"kq": self.key.transpose(-1, -2) @ self.query, "ov": (self.output @ self.value)[:, -self.n_tasks :]}

    def in_c(self, layout: Layout, batch_size: int) -> AttentionStep | None:
        """The gradient of the squared error on such prompts in C; ``None`` where there is none, or no compiler."""
        heads = self.query.shape[0]
        sizes = layout.d + layout.n_tasks, layout.n_tasks
        ours = type(self) is Attention and not self.query_among_keys and sizes == (self.width, self.n_tasks)
        if not ours or not AttentionStep.fits(layout, batch_size, heads, self.activation):
            return None
        return AttentionStep(layout, batch_size, heads, self.activation, self.scale)

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Predictions ``(N, B)`` for tokens ``(L, D, B)`` and query covariates ``(d, B)``."""
        circuits = self.circuits()
        if self.query_among_keys:
            empty = torch.zeros_like(query[: self.n_tasks])
            context = torch.cat([context, torch.cat([query, empty])[None]])
        return attend(self.scale * circuits["kq"], circuits["ov"], context, query, self.activation)


# -- gradients in C: the closed form of what autograd finds (``attention.c`` derives it) ---------------------------------


class AttentionStep:
    """The losses and gradients of runs that read one stream of prompts.

    Args:
        layout: of a prompt's normals.
        batch_size: prompts a step, B.
        n_heads: H.
        activation: ``softmax``, ``affine``, ``square``, ``tanh`` or ``linear``.
        scale: factor on the scores.
    """

    def __init__(self, layout: Layout, batch_size: int, n_heads: int, activation: str, scale: float) -> None:
        assert self.fits(layout, batch_size, n_heads, activation), (batch_size, n_heads)
        width = layout.d + layout.n_tasks
        self._function = library("attention.c", D=width, N=layout.n_tasks, ACT=activation.upper()).gradients
        self._function.argtypes = [POINTER] * 3 + [LONG] * 2 + [FLOAT] + [POINTER] * 4
        self._function.restype = None
        self._task = _task(layout, batch_size)
        self._sizes = n_heads, scale
        self._scratch = torch.zeros(LANES * (layout.L * (width + 1) + 1))
        self._aligned = -(-self._scratch.data_ptr() // 64) * 64

    @staticmethod
    def fits(layout: Layout, batch_size: int, n_heads: int, activation: str) -> bool:
        """Whether such steps can be taken, and compiled on this machine."""
        width = layout.d + layout.n_tasks
        if batch_size % LANES or n_heads * width**2 > LARGEST:
            return False
        return library("attention.c", D=width, N=layout.n_tasks, ACT=activation.upper()) is not None

    def bind(self, params: Mapping[str, Tensor], grads: Mapping[str, Tensor], losses: Tensor) -> None:
        """Say where the runs are: stacks of the four matrices and of their gradients, ``name -> (R, H, D, D)``, and sums of losses ``(R,)``. They must
        stay in place."""
        self._kept = [[of[k] for k in MATRICES] for of in (params, grads)]
        stacks = [(POINTER * len(MATRICES))(*(x.data_ptr() for x in of)) for of in self._kept]
        self._losses = losses
        self._places = (*stacks, losses.data_ptr(), self._aligned)

    def __call__(self, normals: Tensor, runs: Tensor) -> None:
        """Gradients of some runs, in place; their losses are added.

        Args:
            normals: of one stream's batch, ``(normals, B)``.
            runs: numbers of the runs, int64.
        """
        about = ctypes.addressof(self._task), normals.data_ptr(), runs.data_ptr(), len(runs)
        self._function(*about, *self._sizes, *self._places)


def _task(layout: Layout, batch_size: int) -> ctypes.Structure:
    """``struct task`` of ``attention.c``."""
    d, n = layout.d, layout.n_tasks
    fields = {
        "L": (LONG, layout.L),
        "B": (LONG, batch_size),
        "noise": (LONG, layout.noise),
        "beta": (LONG * n, layout.betas),
        "noise_scale": (FLOAT, layout.noise_scale),
        "target_noise_scale": (FLOAT, layout.target_noise_scale),
        "beta_scale": (FLOAT, layout.beta_scale),
        "support": (FLOAT * (n * d), [float(j in s) for s in layout.supports for j in range(d)]),
        "correlated": (ctypes.c_int32, bool(layout.factor)),
        "factor": (FLOAT * (d * d), layout.factor),
    }
    kind = type("Task", (ctypes.Structure,), {"_fields_": [(k, t) for k, (t, _) in fields.items()]})
    is_array = ctypes.Array
    return kind(*(t(*v) if issubclass(t, is_array) else v for t, v in fields.values()))
