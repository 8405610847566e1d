"""The image models with linear attention: the paper names no kernel for figure 5 (right).

With ``kappa(x, x') = x . x'`` functional gradient descent is gradient descent on a linear classifier: K blocks are K steps of linear probing, with
learned steps, from learned embeddings.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ....training import History
from ....training.study import Study
from .images import best_parameters, image_studies, model_log_probability, scores

#: Where the steps start, chosen among 5, 20 and 60 by the validation loss of one seed; inner products of features differ by a few tenths and are divided
#: by N, so steps are large numbers, and their learning rate is ten times that of the embeddings.
RATE, RATE_FACTOR = 5.0, 10.0


def measure_models(study: Study, histories: dict[str, History]) -> dict[str, np.ndarray]:
    """``linear<k>/hits`` and ``/nll`` ``(runs, E)`` on the test episodes of :func:`iclbook.papers.wang2025.runs.images.measure_images`."""
    cached = study.data.prompts.probes(study.groups[0].observe.n)["test"]
    target = cached.target[0].long()
    out: dict[str, np.ndarray] = {}
    for spec in study.groups:
        found = [
            scores(model_log_probability(spec, p, cached), target)
            for p in best_parameters(histories[spec.name])
        ]
        out[f"{spec.name}/hits"] = np.stack([hits for hits, _ in found])
        out[f"{spec.name}/nll"] = np.stack([nll for _, nll in found]).astype(np.float32)
    return out


def linear_study(base: Study) -> Study:
    """The same episodes, seeds and steps as ``base``, with linear attention."""
    groups = []
    for spec in base.groups:
        kwargs = {k: v for k, v in spec.kwargs if k != "gamma"} | {"kernel": "linear", "rate": RATE}
        runs = [dataclasses.replace(run, factors=(("rate", RATE_FACTOR),)) for run in spec.runs]
        groups.append(
            dataclasses.replace(
                spec,
                name=spec.name.replace("blocks", "linear"),
                kwargs=kwargs,
                runs=tuple(runs),
            )
        )
    name = base.name.replace("images", "images_linear")
    return dataclasses.replace(base, name=name, groups=tuple(groups), measure=measure_models)


def linear_studies(profile: str) -> dict[str, Study]:
    """One study for each network that never saw the test classes, ``images_linear_unseen<seed>``."""
    every = [
        linear_study(study)
        for name, study in image_studies(profile).items()
        if name.startswith("images_unseen")
    ]
    return {study.name: study for study in every}
