"""One layer of attention whose heads may be restricted to bands of covariates: nagy2026, sections 9.1, 9.2 and 9.6."""

import math

import torch
from torch import Tensor, nn

from .attention import dot
from .module import Model

#: What a head's keys may read (section 9.1): everything, its own band of the spectrum, as many covariates drawn at random, or all heads the
#: first band.
MASKS = ("none", "spectral", "random", "redundant")


class SpectralAttention(Model):
    """``yhat = r . (E z_q + sum_h O_h V_h E sum_l p_hl z_l)``, with ``p_hl`` from the scores ``(K_h E m_h z_l) . (Q_h E z_q) / sqrt(width/H)``.

    ``m_h`` keeps the covariates that head h's keys may read; the query is not among the keys. "1-layer attention-only transformer
    (d = 32, 4 heads, d_head = 8)" of section 9.1; what that section does not say (softmax or linear attention) is an argument.

    Args:
        d, width: covariates, and width of the residual stream, a multiple of ``n_heads``.
        n_heads: H; unless ``mask`` is ``none`` it divides ``d``.
        mask: one of :data:`MASKS`. A masked head's keys read no responses either.
        activation: ``softmax``, or ``linear``: ``p_hl`` is the score over the number of tokens.
        diversity: weight of :meth:`penalty` (section 9.6).
    """

    def __init__(
        self,
        d: int,
        width: int = 32,
        n_heads: int = 4,
        mask: str = "none",
        activation: str = "softmax",
        diversity: float = 0.0,
    ) -> None:
        super().__init__()
        assert width % n_heads == 0, (width, n_heads)
        self.d, self.width, self.n_heads = d, width, n_heads
        self.mask, self.activation, self.diversity = mask, activation, diversity
        head = width // n_heads
        self._add("embed", width, d + 1, fan_in=d + 1)
        for name in ("query", "key", "value"):
            self._add(name, n_heads, head, width, fan_in=width)
        self._add("output", n_heads, width, head, fan_in=width)
        self._add("read", width, fan_in=width)
        if mask == "random":  # differs between runs, so it travels with their parameters; no gradient ever reaches it
            self.visible = nn.Parameter(torch.zeros(n_heads, d))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """PyTorch's default for linear layers without bias, times ``scale``. Equal seeds give equal weights under every mask."""
        super().initialise(generator, scale)
        if self.mask == "random":
            order = torch.rand(self.d, generator=generator).argsort()
            self.visible.zero_().scatter_(1, order.reshape(self.n_heads, -1), 1.0)

    def _keep(self) -> Tensor:
        """Mask of the entries of a token that each head's keys read: zeros and ones ``(H, d + 1)``."""
        keep = self.embed.new_zeros(self.n_heads, self.d + 1)
        size = self.d // self.n_heads
        if self.mask == "none":
            return keep + 1
        if self.mask == "random":
            return torch.cat([self.visible.detach(), keep[:, :1]], dim=1)
        for h in range(self.n_heads):
            start = size * h if self.mask == "spectral" else 0
            keep[h, start : start + size] = 1
        return keep

    def keys(self) -> Tensor:
        """``K_h E m_h``: ``(H, width/H, d + 1)``."""
        return (self.key @ self.embed) * self._keep()[:, None]

    def heads(self) -> tuple[Tensor, Tensor, Tensor]:
        """The circuits: ``kq`` ``(H, d+1, d)`` with the score scale, ``ov`` ``(H, d+1)``, and ``direct`` ``(d,)`` past the attention."""
        kq = self.keys().transpose(1, 2) @ (self.query @ self.embed[:, : self.d])
        ov = ((self.read @ self.output)[:, None] @ self.value)[:, 0] @ self.embed
        return kq / math.sqrt(self.width // self.n_heads), ov, self.read @ self.embed[:, : self.d]

    def forward(self, context: Tensor, query: Tensor) -> Tensor:
        """Predictions ``(1, B)`` for tokens ``(L, d + 1, B)`` and query covariates ``(d, B)``."""
        scores, values, direct = self._read(context, query)
        if self.activation == "softmax":
            mixed = (torch.softmax(scores, dim=1) * values).sum((0, 1))
        else:
            mixed = (scores * values).sum((0, 1)) / context.shape[0]
        return (mixed + direct)[None]

    def _read(self, context: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores and values ``(H, L, B)``, and what the query says past the attention ``(B,)``."""
        kq, ov, direct = self.heads()
        folded = (kq.flatten(0, 1) @ query).unflatten(0, kq.shape[:2])  # (H, d + 1, B)
        return dot(folded[:, None], context, axis=-2), dot(ov[:, None, :, None], context, axis=-2), direct @ query

    def curve(self, context: Tensor, query: Tensor, target: Tensor) -> Tensor:
        """Mean squared error ``(L,)`` after the first 1, 2, ..., L tokens."""
        scores, values, direct = self._read(context, query)
        lengths = range(1, context.shape[0] + 1)
        if self.activation == "softmax":
            # anew for each length: a running sum of exponentials underflows where scores are large
            mixed = torch.stack([(scores[:, :n].softmax(1) * values[:, :n]).sum((0, 1)) for n in lengths])
        else:
            counts = torch.arange(1, len(lengths) + 1, device=scores.device).to(scores)
            mixed = (scores * values).sum(0).cumsum(0) / counts[:, None]
        return ((mixed + direct - target) ** 2).mean(-1)

    # -- what the figures show ----------------------------------------------------------------------------------------

    def penalty(self) -> Tensor:
        """Diversity regulariser (section 9.6, which does not define it): mean over pairs of heads of the cosine between the squared norms of their keys'
        columns, 1 when all heads attend to the same input dimensions and 0 when no two share one."""
        if not self.diversity or self.n_heads == 1:
            return self.embed.new_zeros(())
        strength = (self.keys()[..., : self.d] ** 2).sum(1)  # (H, d)
        unit = strength / (strength.square().sum(-1, keepdim=True) + 1e-12).sqrt()
        pairs = self.n_heads * (self.n_heads - 1)
        return self.diversity * ((unit @ unit.T).sum() - (unit**2).sum()) / pairs

    def circuits(self) -> dict[str, Tensor]:
        """``gain`` ``(d,)``: diagonal of the matrix G in ``yhat ~ (1/L) sum_l y_l x_l^T G x_q`` at small scores (its eigenbasis is that of the
        covariance), as far as the values read the responses; keys that are not masked read them too, and that path is left out; ``key`` ``(H, d)``:
        norms of the keys' columns."""
        kq, ov, _ = self.heads()
        return {
            "gain": (ov[:, self.d, None] * kq[:, : self.d].diagonal(dim1=1, dim2=2)).sum(0),
            "key": (self.keys()[..., : self.d] ** 2).sum(1).sqrt(),
        }

    def measured_on(self, prompts: dict[str, tuple[Tensor, Tensor, Tensor]]) -> dict[str, Tensor]:
        """``curve_<name>`` ``(L,)`` on each set of prompts ``(context, query, target)``."""
        return {f"curve_{name}": self.curve(*prompt) for name, prompt in prompts.items()}
