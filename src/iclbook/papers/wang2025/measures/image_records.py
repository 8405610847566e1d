"""What the chapter says about images, computed from stored results: paired differences and their standard errors over episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ....statistics import ratio_error, standard_error
from ....store import Results
from ....tasks.glyphs import GlyphSet
from ....training.study import Study
from ..runs.contexts import TEST
from ..runs.images import BLOCKS, WIDTH, GlyphEpisodes, ImageContexts, ImageEpisodes, blocks
from ..runs.networks import STUDIES, Network, weights

PROBE_SCORES = ("tuned_hits", "tuned_nll", "coded_hits", "coded_nll")


def unseen(results: Mapping[str, Results]) -> list[Results]:
    """Results on the networks that never saw the test classes."""
    return [r for name, r in results.items() if name.startswith("images_unseen")]


def per_episode(results: list[Results], what: str) -> np.ndarray:
    """``blocks2/hits``, ``probe/tuned_nll`` ...: mean over networks and runs, ``(E,)``; episode e is the same everywhere."""
    return np.mean([np.atleast_2d(r[what].astype(float)).mean(0) for r in results], axis=0)


def linear(results: Mapping[str, Results]) -> list[Results]:
    """Results of the models with linear attention on the same networks, in the same order."""
    return [results[n.replace("images", "images_linear")] for n in results if n.startswith("images_unseen")]


class Scored(NamedTuple):
    """Hits and negative log-likelihoods of one model, ``(E,)`` each."""

    hits: np.ndarray
    nll: np.ndarray


def scores_of(results: list[Results], group: str) -> dict[int, Scored]:
    """Scores by number of blocks of the models whose groups have this name."""
    return {
        k: Scored(*(per_episode(results, f"{group}{k}/{what}") for what in ("hits", "nll"))) for k in BLOCKS
    }


#: Attention -> how its groups are called.
ATTENTIONS = {"softmax": "blocks", "linear": "linear"}


def models(results: Mapping[str, Results], attention: str) -> list[Results]:
    """Results that hold the models with this attention."""
    return linear(results) if attention == "linear" else unseen(results)


def comparison_records(results: Mapping[str, Results]) -> dict:
    """Figure 5, right: the scores of every model and both probes, and what each number of blocks gains on the probes."""
    softmax, flat = scores_of(unseen(results), "blocks"), scores_of(linear(results), "linear")
    probe = {name: per_episode(unseen(results), f"probe/{name}") for name in PROBE_SCORES}
    return {
        "images/tuned/accuracy": float(probe["tuned_hits"].mean()),
        "images/tuned/nll": float(probe["tuned_nll"].mean()),
        "images/coded/accuracy": float(probe["coded_hits"].mean()),
        "images/coded/nll": float(probe["coded_nll"].mean()),
        "images/softmax/accuracy1": float(softmax[1].hits.mean()),
        "images/softmax/accuracy2": float(softmax[2].hits.mean()),
        **gain(softmax[3].hits, mean="images/softmax/accuracy3", se="images/softmax/accuracy3_se"),
        "images/softmax/nll1": float(softmax[1].nll.mean()),
        "images/softmax/nll2": float(softmax[2].nll.mean()),
        "images/softmax/nll3": float(softmax[3].nll.mean()),
        "images/linear/accuracy1": float(flat[1].hits.mean()),
        "images/linear/accuracy2": float(flat[2].hits.mean()),
        "images/linear/accuracy3": float(flat[3].hits.mean()),
        "images/linear/nll1": float(flat[1].nll.mean()),
        "images/linear/nll2": float(flat[2].nll.mean()),
        "images/linear/nll3": float(flat[3].nll.mean()),
        **gain(
            flat[3].hits - probe["tuned_hits"],
            mean="images/linear/tuned/accuracy3",
            se="images/linear/tuned/accuracy3_se",
        ),
        **against_tuned(softmax, probe["tuned_hits"], probe["tuned_nll"]),
        **against_coded(softmax, probe["coded_hits"], probe["coded_nll"]),
    }


def against_tuned(softmax: Mapping[int, Scored], hits: np.ndarray, nll: np.ndarray) -> dict:
    """One to three softmax blocks less the probe with the chosen penalty, whose scores are ``(E,)``."""
    return {
        **gain(
            softmax[1].hits - hits,
            mean="images/softmax/tuned/accuracy1",
            se="images/softmax/tuned/accuracy1_se",
        ),
        **gain(
            softmax[2].hits - hits,
            mean="images/softmax/tuned/accuracy2",
            se="images/softmax/tuned/accuracy2_se",
        ),
        **gain(
            softmax[3].hits - hits,
            mean="images/softmax/tuned/accuracy3",
            se="images/softmax/tuned/accuracy3_se",
        ),
        **gain(softmax[1].nll - nll, mean="images/softmax/tuned/nll1", se="images/softmax/tuned/nll1_se"),
        "images/softmax/tuned/nll2_ratio": float(softmax[2].nll.mean() / nll.mean()),
        "images/softmax/tuned/nll2_ratio_se": ratio_error(softmax[2].nll, nll),
        "images/softmax/tuned/nll3_ratio": float(softmax[3].nll.mean() / nll.mean()),
        "images/softmax/tuned/nll3_ratio_se": ratio_error(softmax[3].nll, nll),
    }


def against_coded(softmax: Mapping[int, Scored], hits: np.ndarray, nll: np.ndarray) -> dict:
    """The same less the probe of 500 Adam steps."""
    return {
        **gain(
            softmax[1].hits - hits,
            mean="images/softmax/coded/accuracy1",
            se="images/softmax/coded/accuracy1_se",
        ),
        **gain(
            softmax[2].hits - hits,
            mean="images/softmax/coded/accuracy2",
            se="images/softmax/coded/accuracy2_se",
        ),
        **gain(
            softmax[3].hits - hits,
            mean="images/softmax/coded/accuracy3",
            se="images/softmax/coded/accuracy3_se",
        ),
        **gain(softmax[1].nll - nll, mean="images/softmax/coded/nll1", se="images/softmax/coded/nll1_se"),
        "images/softmax/coded/nll2_ratio": float(softmax[2].nll.mean() / nll.mean()),
        "images/softmax/coded/nll2_ratio_se": ratio_error(softmax[2].nll, nll),
        "images/softmax/coded/nll3_ratio": float(softmax[3].nll.mean() / nll.mean()),
        "images/softmax/coded/nll3_ratio_se": ratio_error(softmax[3].nll, nll),
    }


def gain(differences: np.ndarray, **keys: str) -> dict[str, float]:
    """``mean`` of paired differences over episodes ``(E,)`` and its standard error ``se``, under the keys given for them."""
    every = {"mean": float(differences.mean()), "se": float(standard_error(differences))}
    return {key: every[name] for name, key in keys.items()}


@dataclass(frozen=True)
class LabelsOnly(ImageEpisodes):
    """Episodes of glyphs with features of length 0: labels are chosen without regard to images."""

    glyphs: GlyphSet | None = None

    def table(self) -> Tensor:
        """No features of the training or the test classes, ``(classes, typefaces, copies, 0)``."""
        train, every = self.glyphs.n_train, self.glyphs.n_classes
        classes = train if self.part == "train" else every - train
        return torch.zeros(classes, self.glyphs.typefaces, self.glyphs.copies, 0)


def labels_only(task: GlyphEpisodes) -> LabelsOnly:
    """The same episodes without their features."""
    return LabelsOnly(task.few_shot, task.part, task.network.glyphs)


def _d(network: Network) -> int:
    """Features that the kept network gives: the channels of its last convolution."""
    return len(weights(network)[f"convolutions.{len(network.channels)}.weight"])


def setting_records(studies: Mapping[str, Study], results: Mapping[str, Results]) -> dict:
    """Figure 6: the setting, checked on the episodes and the weights of the models, and the control with labels dealt at random."""
    on = unseen(results)
    chosen = [study for name, study in studies.items() if name.startswith("images_unseen")]
    first: ImageContexts = chosen[0].data.prompts
    glyphs = first.task.network.glyphs
    labels = next(blocks(labels_only(first.unseen), 4, TEST)).context[:, -1].long()  # (N, E)
    ways = first.task.few_shot.ways
    as_stated = (
        labels.shape[0] == 50
        and all((labels == way).sum(0).eq(10).all() for way in range(ways))
        and ways == 5
        and _d(first.task.network) == 512
        and all(spec.build().embed.shape == (WIDTH, ways) for spec in chosen[0].groups)
        and (glyphs.n_train, glyphs.n_classes - glyphs.n_train) == (900, 100)
        and all(study.data.prompts.task.network.n_classes == glyphs.n_train for study in chosen)
        and len(set(glyphs.load().codes.tolist())) == glyphs.n_classes
    )
    return {
        "images/setting": bool(as_stated),
        **gain(per_episode(on, "blocks3/shuffled"), mean="images/shuffled", se="images/shuffled_se"),
        "images/episodes": len(on[0]["probe/tuned_hits"]),
        "images/contexts": chosen[0].data.n,
        "images/seeds": on[0]["blocks1/hits"].shape[0],
        "images/networks": len(on),
        "images/classes": glyphs.n_classes,
        "images/test_classes": glyphs.n_classes - glyphs.n_train,
        "images/minutes": sum(r.provenance["seconds"] for r in results.values()) / 60,
    }


def seen_records(results: Mapping[str, Results]) -> dict:
    """What features gain that learned to name the test classes too; one number for each pair of networks of one seed."""

    def gains(what: str) -> list[np.ndarray]:
        return [
            per_episode([results[n.replace("unseen", "seen")]], what) - per_episode([r], what)
            for n, r in results.items()
            if n.startswith("images_unseen")
        ]

    probe, deep = gains("probe/tuned_hits"), gains("blocks3/hits")
    return {
        "images/seen/probe": [float(one.mean()) for one in probe],
        "images/seen/probe_se": [float(standard_error(one)) for one in probe],
        "images/seen/blocks3": [float(one.mean()) for one in deep],
        "images/seen/blocks3_se": [float(standard_error(one)) for one in deep],
    }


def last_records(studies: Mapping[str, Study], results: Mapping[str, Results]) -> dict:
    """Episodes whose query always carries the last label: a constant answer, and what the models make of it."""
    last = results["images_last"]
    context: ImageContexts = studies["images_last"].data.prompts
    drawn = blocks(labels_only(context.unseen), len(last["probe/tuned_hits"]), TEST)
    target = torch.cat([batch.target for batch in drawn], dim=-1)
    plain = next(r for name, r in results.items() if name.startswith("images_unseen"))  # the same network
    hits = per_episode([last], "blocks3/hits")
    return {
        "images/last/constant": float((target == context.task.few_shot.ways - 1).float().mean()),
        "images/last/blocks3": float(hits.mean()),
        "images/last/blind": float(per_episode([last], "blocks3/shuffled").mean()),
        **gain(
            hits - per_episode([plain], "blocks3/hits"), mean="images/last/gain", se="images/last/gain_se"
        ),
    }


def image_names(studies: Mapping[str, Study]) -> list[str]:
    """Names of the studies of the image part, networks first."""
    return [name for name in studies if name.startswith((STUDIES, "images_"))]
