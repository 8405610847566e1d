"""The embeddings and the context that drew figures 8 and 9, drawn again from the seeds of the authors' published program."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ... import threefry
from ...tasks.categorical import Quadrants
from .contexts import AUTHORS_KEYS


def _map_keys() -> np.ndarray:
    """Keys ``(7, 2)`` of ``gen_scan_data`` at seed 0 (``predict_sample_space_max.py``, where the key is split four times on the way): 1 draws ``W_e``, 2 the
    covariates, 4 the categories of the quadrants, 5 the labels."""
    key = threefry.split(threefry.split(threefry.key_of(0))[0], 3)[0]
    key = threefry.split(threefry.split(key)[1])[0]
    return threefry.split(key, 7)


@dataclass(frozen=True)
class PublishedQuadrants(Quadrants):
    """Appendix F with the authors' own ``W_e``; ``embed_seed`` says nothing here.

    Args:
        source: ``"map"``, the ``W_e`` of figure 9's context, or ``"training"``, the one on which their program trains (``create_w_e`` at key 5).
    """

    source: str = "map"

    @cached_property
    def embedding(self) -> Tensor:
        """``W_e`` ``(d', C)``."""
        key = {"map": _map_keys()[1], "training": threefry.split(AUTHORS_KEYS[3])[1]}[self.source]
        return torch.from_numpy(threefry.normals(key, (self.width, self.n_classes)).copy())


def figure_9_context() -> tuple[Tensor, Tensor]:
    """The context of figure 9: tokens ``(N, d + 1)``, float64, rows ``x_i, y_i``; and the categories of the quadrants ``(4,)``, counter-clockwise from the top
    right."""
    keys, task = _map_keys(), PublishedQuadrants()
    x = torch.from_numpy(threefry.uniform(keys[2], (task.N, task.d), -1, 1))
    # their quadrants 0 to 3: bottom left, top left, bottom right, top right
    chosen = torch.from_numpy(threefry.permutation(keys[4], task.n_classes)[: task.present][[3, 1, 0, 2]].copy())
    f = task.latent(x[..., None], x, chosen[:, None])[..., 0].double()  # (N, d')
    y = threefry.categorical(keys[5], (f @ task.embedding.double()).numpy())
    return torch.cat([x.double(), torch.from_numpy(y)[:, None].double()], dim=1), chosen
