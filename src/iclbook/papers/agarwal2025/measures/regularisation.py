"""Section 8.2 of agarwal2025 on short chains: LayerNorm on values, attention dropout, the learning rate. Plain autograd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ....models.single_head import SingleHead
from ....statistics import bootstrap_error, share_error
from ....store import Results
from ....tasks.sticky_chain import StickyChain
from ....training import History
from ....training.study import Study
from ..runs.dropped import DROPOUTS, regularisation_study
from ..runs.full_batch import data
from ..theory.causal import predict


def trained(
    chain: StickyChain, seeds: Sequence[int], steps: int, records: Sequence[int] = ()
) -> dict[str, History]:
    """The study on this chain, trained now.

    Raises:
        UserError: a loss is no longer finite.
    """
    return regularisation_study(chain, seeds, steps, records).trainer("cpu").train(progress=False)


def stored(study: Study, results: Results) -> dict[str, History]:
    """The same of a study whose results are kept."""
    found = {}
    for group in study.groups:
        own = results.group(group.name)
        found[group.name] = History(own.pop("steps"), own.pop("loss"), own)
    return found


def at(history: History, run: int, step: int = -1, value_norm: bool = False) -> SingleHead:
    """The model of a run at a recorded step, the last by default."""
    row = -1 if step < 0 else int(np.flatnonzero(history.steps == step)[0])
    model = SingleHead(value_norm=value_norm)
    model.load_state_dict({name: torch.from_numpy(p[row, run]) for name, p in history.circuits.items()})
    return model


@torch.no_grad()
def _usage_evenness(model: SingleHead, x: Tensor) -> float:
    """Entropy of the column sums of attention over that of equal sums."""
    usage = model.attention(x).sum(0) / len(x)
    return float(-torch.xlogy(usage, usage).sum() / np.log(len(x)))


@torch.no_grad()
def _spread(model: SingleHead, x: Tensor) -> float:
    return float(predict(x, model.W_Q, model.W_K, model.W_V, model.W_O).spread[1:].mean())


@torch.no_grad()
def _norm_spread(model: SingleHead, x: Tensor) -> float:
    """Standard deviation of the norms of the values over their mean, float64: single precision would leave its own rounding where they are all alike."""
    sizes = deepcopy(model).double().values(x).norm(dim=-1)
    return float(sizes.std() / sizes.mean())


def gradients(model: SingleHead, x: Tensor, y: Tensor) -> tuple[float, dict[str, Tensor]]:
    """Loss and its gradients by name."""
    loss = cross_entropy(model(x), y)
    named = dict(model.named_parameters())
    return float(loss.detach()), dict(
        zip(named, torch.autograd.grad(loss, list(named.values())), strict=True)
    )


def _moved(model: SingleHead, grads: dict[str, Tensor], rate: float) -> dict[str, Tensor]:
    """Parameters after one step."""
    return {name: (p - rate * grads[name]).detach() for name, p in model.named_parameters()}


def _directions_moved(start: SingleHead, x: Tensor, y: Tensor) -> Tensor:
    """Change of the values' directions ``(T, d_v)`` in one small step from the start, float64."""
    model = deepcopy(start).double()
    after = deepcopy(model)
    after.load_state_dict(_moved(model, gradients(model, x, y)[1], 1e-4))
    with torch.no_grad():
        return normalize(after.values(x), dim=-1) - normalize(model.values(x), dim=-1)


def measure(seeds: Sequence[int], T: int = 200, steps: int = 300) -> dict[str, object]:
    """Section 8.2's claims, over seeds that are trained now."""
    chain = StickyChain("code", T=T)
    return measured(chain, seeds, trained(chain, seeds, steps))


def measured_of(study: Study, results: Results) -> dict[str, object]:
    """Section 8.2's claims, over the seeds of a study whose results are kept."""
    seeds = [run.seed for run in study.groups[0].runs]
    return measured(study.data.chain, seeds, stored(study, results))


def measured(chain: StickyChain, seeds: Sequence[int], found: Mapping[str, History]) -> dict[str, object]:
    """Section 8.2's claims from the histories of the groups."""
    norms, cosines, even, spread = [], [], [], []
    for run, seed in enumerate(seeds):
        seq = data(chain, seed).train
        plain, normed = at(found["plain"], run), at(found["normed"], run, value_norm=True)
        dropped = [at(found[f"dropped{share}"], run) for share in DROPOUTS]
        x = seq.x.double()
        norms.append(_norm_spread(normed, x) / _norm_spread(plain, x))
        starts = [at(found["plain"], run, 0), at(found["normed"], run, 0, value_norm=True)]
        moved = [_directions_moved(start, x, seq.y) for start in starts]
        cosines.append(torch.nn.functional.cosine_similarity(*moved, dim=-1))
        even.append([_usage_evenness(model, seq.x) > _usage_evenness(plain, seq.x) for model in dropped])
        spread.append([_spread(model, seq.x) > _spread(plain, seq.x) for model in dropped])
    return {
        "reg/seeds": len(seeds),
        "reg/norm_spread": float(np.median(norms)),
        "reg/direction": float(torch.cat(cosines).median()),
        "reg/direction_se": bootstrap_error(np.median, torch.stack(cosines).numpy()),
        "reg/dropout_even": np.mean(even, 0).tolist(),
        "reg/dropout_even_se": _errors(even),
        "reg/dropout_spread": np.mean(spread, 0).tolist(),
        "reg/dropout_spread_se": _errors(spread),
    }


def _errors(happens: list[list[bool]]) -> list[float]:
    """Standard error of the share of seeds at each dropout rate; ``happens`` has one list of rates for each seed."""
    return [share_error(int(hits), len(happens)) for hits in np.sum(happens, 0)]
