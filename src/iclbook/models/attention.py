"""One-layer multi-head attention as he2025 trains it, and its linear and other-activation relatives."""

import ctypes
import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..native import FLOAT, LONG, POINTER, library
from ..tasks.linear_regression import Layout
from .module import Model

#: Prompts that the C code takes side by side; a batch is a multiple.
LANES = 16
#: Largest number of sums that a run keeps for its gradient, ``H D^2``: they lie on the stack.
LARGEST = 4096
MATRICES = ("query", "key", "value", "output")


def normalised(f: Tensor) -> Tensor:
    """``f_i / sum_j f_j`` of ``(..., L, B)`` along the keys."""
    return f / f.sum(-2, keepdim=True)


#: Activation of scores ``(..., L, B)`` along the keys. All but ``linear`` are normalised, ``f(s_i) / sum_j f(s_j)`` (he2025, "Ablation
#: Study"; the paper leaves the constant C open, here C = 1). ``linear`` is ``s_i / L`` (he2025, "Linear vs Softmax Attention").
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda s: torch.softmax(s, dim=-2),
    "affine": lambda s: normalised(1 + s),
    "square": lambda s: normalised((1 + s) ** 2),
    "tanh": lambda s: normalised(1 + torch.tanh(s)),
    "linear": lambda s: s / s.shape[-2],
}


def dot(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """Sum of ``a * b`` over a short axis, written out term by term: the compiler fuses the terms into one pass along the batch."""
    return sum(x * y for x, y in zip(a.unbind(axis), b.unbind(axis), strict=True))


def attend(kq: Tensor, ov: Tensor, context: Tensor, query: Tensor, activation: str = "softmax") -> Tensor:
    """Predictions ``(N, B)`` from circuits: ``yhat = sum_h OV^(h) Z act(Z^T KQ^(h) z_q)`` (he2025, the closed form of ``yhat_q``).

    K^T Q is folded into the query first and the values are read after folding O V, so keys and values of all tokens are never formed:
    same parameters, same gradients, a fraction of the work. The query is not among the keys, as in the paper's closed form.

    Args:
        kq: ``(H, D, D)`` key-query circuits, the score scale included.
        ov: ``(H, N, D)`` rows of the output-value circuits that are read out.
        context: ``(L, D, B)`` tokens.
        query: ``(d, B)`` covariate of the query token, whose response is 0.
        activation: a key of :data:`ACTIVATIONS`.
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


class Attention(Model):
    """Multi-head attention with separate Q, K, V, O matrices of size ``(d + N) x (d + N)`` per head (he2025, "Multi-Head Softmax Attention").

    Args:
        d: covariate dimension.
        n_heads: number of heads H.
        n_tasks: number of responses N.
        activation: a key of :data:`ACTIVATIONS`.
        score_scale: ``"none"`` as printed, ``"code"``: scores divided by ``sqrt(d + N)``, as the published code does, or a positive factor: the
            constant C of the other activations.
    """

    def __init__(
        self, d: int, n_heads: int, n_tasks: int = 1, activation: str = "softmax", score_scale: str | float = "none"
    ) -> None:
        super().__init__()
        self.width = d + n_tasks  # D
        self.n_tasks, self.activation = n_tasks, activation
        names = {"none": 1.0, "code": 1 / math.sqrt(self.width)}
        self.scale = names[score_scale] if isinstance(score_scale, str) else float(score_scale)
        for name, fan_in in zip(MATRICES, (self.width, self.width, self.width, n_heads * self.width), strict=True):
            self._add(name, n_heads, self.width, self.width, fan_in=fan_in)  # O joins H heads of width D

    def circuits(self) -> dict[str, Tensor]:
        """``kq``: ``(H, D, D)`` = K^T Q, without the score scale; ``ov``: ``(H, N, D)``, the read-out rows of O V."""
        return {"kq": self.key.transpose(-1, -2) @ self.query, "ov": (self.output @ self.value)[:, -self.n_tasks :]}

    def in_c(
        self, layout: Layout, batch_size: int, params: Mapping[str, Tensor], grads: Mapping[str, Tensor], losses: Tensor
    ) -> Callable[[Tensor, Tensor], None] | None:
        """``gradients(normals, runs)``: those of the squared error for runs ``(n,)``, int64, on one stream's normals ``(normals, B)``, in C, the closed form
        of what autograd finds (``attention.c`` derives it). None if this model has no C gradient or no compiler is available. The stacks ``params`` and ``grads``,
        ``name -> (R, H, D, D)``, and ``losses (R,)``, onto which losses are added, must stay in place."""
        n_heads, sizes = self.query.shape[0], (layout.d + layout.n_tasks, layout.n_tasks)
        ours = type(self) is Attention and sizes == (self.width, self.n_tasks)
        if not ours or batch_size % LANES or n_heads * self.width**2 > LARGEST:
            return None
        compiled = library("attention.c", D=self.width, N=self.n_tasks, ACT=self.activation.upper())
        if compiled is None:
            return None
        function = compiled.gradients
        function.argtypes = [POINTER] * 3 + [LONG] * 2 + [FLOAT] + [POINTER] * 4
        function.restype = None
        task, scale = _task(layout, batch_size), self.scale
        scratch = torch.zeros(LANES * (layout.L * (self.width + 1) + 1))
        stacks = [(POINTER * len(MATRICES))(*(of[k].data_ptr() for k in MATRICES)) for of in (params, grads)]

        def gradients(normals: Tensor, runs: Tensor) -> None:
            aligned = -(-scratch.data_ptr() // 64) * 64
            about = ctypes.addressof(task), normals.data_ptr(), runs.data_ptr(), len(runs)
            function(*about, n_heads, scale, *stacks, losses.data_ptr(), aligned)

        return gradients

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Predictions ``(N, B)`` for tokens ``(L, D, B)`` and query covariates ``(d, B)``."""
        circuits = self.circuits()
        return attend(self.scale * circuits["kq"], circuits["ov"], context, query, self.activation)


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


class ReducedAttention(Model):
    """``yhat = sum_h mu_h <y, smax(omega_h X x_q)>``, a sum of H kernel regressors: the two numbers per head to which trained attention reduces (he2025, Key
    Finding 1). They start from ``N(0, scale^2)``, small by the paper's assumption ("Starting from small random initialization").
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self._add("omega", n_heads, sd=1.0)
        self._add("mu", n_heads, sd=1.0)

    def circuits(self) -> dict[str, Tensor]:
        """The parameters themselves, each ``(H,)``."""
        return {"omega": self.omega, "mu": self.mu}

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Predictions ``(1, B)`` for tokens ``(L, d + 1, B)`` and query covariates ``(d, B)``."""
        d = query.shape[0]
        inner = dot(context[:, :d], query, axis=-2)  # (L, B)
        weights = torch.softmax(self.omega[:, None, None] * inner, dim=-2)  # (H, L, B)
        mixture = (self.mu[:, None, None] * weights).sum(0)  # (L, B)
        return (mixture * context[:, d]).sum(0, keepdim=True)
