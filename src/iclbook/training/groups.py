"""A group: runs of one architecture, their parameters stacked along a leading run axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from ..errors import UserError
from ..tasks import Batch
from .optimisers import Adam, Optimiser, State, Tensors

#: Purposes of a run's random numbers; each has a generator of its own, so drawing more of one never shifts the other.
INIT, DATA = 0, 1


@dataclass(frozen=True)
class Run:
    """One training run. Its trajectory depends on these numbers only, not on the runs beside it.

    Attributes:
        seed: seeds the initial parameters, and the data unless ``stream`` is given.
        rate: learning rate.
        init_scale: factor on the initial parameters.
        stream: seed of the data; runs with the same stream see the same batches (common random numbers, drawn once).
    """

    seed: int
    rate: float = 1e-3
    init_scale: float = 1.0
    stream: int | None = None

    @property
    def data_seed(self) -> int:
        """Seed of the run's data stream."""
        return self.seed if self.stream is None else self.stream


def generator(seed: int, purpose: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of its own for each seed and purpose."""
    state = int(np.random.SeedSequence([seed, purpose]).generate_state(1, np.uint64)[0])
    return torch.Generator(device=device).manual_seed(state >> 1)  # torch wants a signed 64-bit seed


def squared_error(model: nn.Module, batch: Batch) -> Tensor:
    """Mean over the batch of ``|y_q - yhat|^2`` summed over tasks (he2025, population loss)."""
    return ((model(batch.context, batch.query) - batch.target) ** 2).sum(0).mean()


class _Loss(nn.Module):
    """Turns ``loss(model, batch)`` into a module call, which is what functional_call can re-parametrise."""

    def __init__(self, model: nn.Module, loss: Callable[[nn.Module, Batch], Tensor]) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, *batch: Tensor) -> Tensor:
        return self._loss(self.model, Batch(*batch))


@dataclass
class Group:
    """Runs of one architecture.

    Args:
        name: key of the group's arrays in results.
        model: the module, written for one run. Needs ``initialise(generator, scale)`` and ``circuits() -> dict of tensors``.
        runs: at least one.
        optimiser: Adam by default.
        rate_factors: factor on the learning rate of the named parameters, for per-group rates.
        loss: ``loss(model, batch) -> scalar`` of one run.
        may_diverge: whether a loss or circuit that is not finite is a result; otherwise the trainer refuses it.
    """

    name: str
    model: nn.Module
    runs: Sequence[Run]
    optimiser: Optimiser = field(default_factory=Adam)
    rate_factors: dict[str, float] = field(default_factory=dict)
    loss: Callable[[nn.Module, Batch], Tensor] = squared_error
    may_diverge: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.runs:
            raise UserError(f"group {self.name!r} has no runs", "Give it at least one Run.")
        names = [name for name, _ in self.model.named_parameters()]
        unknown = set(self.rate_factors) - set(names)
        if unknown:
            raise UserError(
                f"group {self.name!r} has no parameter {sorted(unknown)}",
                f"Choose among: {', '.join(names)}.",
            )
        self._scored = _Loss(self.model, self.loss)

    def initial(self, device: torch.device, dtype: torch.dtype) -> Tensors:
        """Stacked initial parameters ``name -> (R, ...)``, drawn on the CPU so that every device starts from the same point."""
        stacks: dict[str, list[Tensor]] = {}
        for run in self.runs:
            self.model.initialise(generator(run.seed, INIT), run.init_scale)
            for name, p in self.model.named_parameters():
                stacks.setdefault(name, []).append(p.detach().clone())
        return {name: torch.stack(ps).to(device=device, dtype=dtype) for name, ps in stacks.items()}

    def rates(self, params: Tensors) -> Tensors:
        """Learning rates shaped to broadcast against each stacked parameter."""
        rates = {}
        for name, p in params.items():
            values = [run.rate * self.rate_factors.get(name, 1.0) for run in self.runs]
            rates[name] = torch.tensor(values, dtype=p.dtype, device=p.device).reshape(
                -1, *[1] * (p.dim() - 1)
            )
        return rates

    def gradients(self, params: Tensors, batch: Batch) -> tuple[Tensors, Tensor]:
        """Gradients ``name -> (R, ...)`` and losses ``(R,)`` of all runs at once; ``batch`` has a leading run axis."""

        def one_run(p: Tensors, *data: Tensor) -> Tensor:
            return functional_call(self._scored, {f"model.{k}": v for k, v in p.items()}, data)

        return vmap(grad_and_value(one_run))(params, *batch)

    def step(
        self, params: Tensors, state: State, batch: Batch, rates: Tensors, t: Tensor
    ) -> tuple[Tensors, State, Tensor]:
        """One optimiser step of all runs: new parameters, new state, losses ``(R,)`` before the step."""
        grads, losses = self.gradients(params, batch)
        params, state = self.optimiser.update(params, grads, state, rates, t)
        return params, state, losses

    def circuits(self, params: Tensors) -> Tensors:
        """The model's circuits of all runs, ``name -> (R, ...)``."""

        def one_run(p: Tensors) -> Tensors:
            return functional_call(_Circuits(self.model), {f"model.{k}": v for k, v in p.items()}, ())

        return vmap(one_run)(params)


class _Circuits(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self) -> Tensors:
        return self.model.circuits()
