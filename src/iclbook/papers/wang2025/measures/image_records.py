"""What the chapter says about images, computed from stored results: paired differences with their confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from ....statistics import interval, ratio_error, standard_error
from ....store import Results
from ....training.study import Study
from ..runs.contexts import TEST
from ..runs.images import BLOCKS, WIDTH, ImageContexts, blocks
from ..runs.networks import STUDIES, features

#: Half width of a 95% confidence interval in standard errors: about a thousand episodes are what varies.
Z = 1.96
PROBES = ("tuned", "coded")


def unseen(results: Mapping[str, Results]) -> list[Results]:
    """Results on the networks that never saw the test classes."""
    return [r for name, r in results.items() if name.startswith("images_unseen")]


def per_episode(results: list[Results], what: str) -> np.ndarray:
    """``blocks2/hits``, ``probe/tuned_nll`` ...: mean over networks and runs, ``(E,)``; episode e is the same everywhere."""
    return np.mean([np.atleast_2d(r[what].astype(float)).mean(0) for r in results], axis=0)


def linear(results: Mapping[str, Results]) -> list[Results]:
    """Results of the models with linear attention on the same networks, in the same order."""
    return [results[n.replace("images", "images_linear")] for n in results if n.startswith("images_unseen")]


#: Attention -> how its groups are called.
ATTENTIONS = {"softmax": "blocks", "linear": "linear"}


def models(results: Mapping[str, Results], attention: str) -> list[Results]:
    """Results that hold the models with this attention."""
    return linear(results) if attention == "linear" else unseen(results)


def comparison_records(results: Mapping[str, Results]) -> dict:
    """Figure 5, right: every number of blocks against both probes, ``images/<attention>/<probe>/...``."""
    found, on = {}, unseen(results)
    for probe in PROBES:
        found[f"images/{probe}/accuracy"] = float(per_episode(on, f"probe/{probe}_hits").mean())
        found[f"images/{probe}/nll"] = float(per_episode(on, f"probe/{probe}_nll").mean())
    for attention, group in ATTENTIONS.items():
        for k in BLOCKS:
            hits, nll = (
                per_episode(models(results, attention), f"{group}{k}/{what}") for what in ("hits", "nll")
            )
            found[f"images/{attention}/accuracy{k}"] = float(hits.mean())
            found[f"images/{attention}/nll{k}"] = float(nll.mean())
            for probe in PROBES:
                base = f"images/{attention}/{probe}"
                gain = hits - per_episode(on, f"probe/{probe}_hits")
                mean, low, high = interval(gain, half_width=Z)
                found |= {
                    f"{base}/accuracy{k}{end}": v for end, v in (("", mean), ("_low", low), ("_high", high))
                }
                against = per_episode(on, f"probe/{probe}_nll")
                _, low, high = interval(nll - against, half_width=Z)
                found |= {f"{base}/nll{k}_low": low, f"{base}/nll{k}_high": high}
                found[f"{base}/nll{k}_ratio"] = float(nll.mean() / against.mean())
                if attention == "softmax":
                    found[f"{base}/accuracy{k}_se"] = float(standard_error(gain))
                if attention == "softmax" and k > 1:
                    found[f"{base}/nll{k}_ratio_se"] = ratio_error(nll, against)
    return found


def setting_records(studies: Mapping[str, Study], results: Mapping[str, Results]) -> dict:
    """Figure 6: the setting, checked on the episodes and models themselves, and the control with labels dealt at random."""
    on = unseen(results)
    chosen = [study for name, study in studies.items() if name.startswith("images_unseen")]
    first: ImageContexts = chosen[0].data.prompts
    glyphs = first.task.network.glyphs
    labels = next(blocks(first.unseen, 4, TEST)).context[:, -1].long()  # (N, E)
    ways = first.task.few_shot.ways
    as_stated = (
        labels.shape[0] == 50
        and all((labels == way).sum(0).eq(10).all() for way in range(ways))
        and ways == 5
        and features(first.task.network).shape[-1] == 512
        and all(spec.build().embed.shape == (WIDTH, ways) for spec in chosen[0].groups)
        and (glyphs.n_train, glyphs.n_classes - glyphs.n_train) == (900, 100)
        and all(study.data.prompts.task.network.n_classes == glyphs.n_train for study in chosen)
        and len(set(glyphs.load().codes.tolist())) == glyphs.n_classes
    )
    _, low, high = interval(per_episode(on, "blocks3/hits"), half_width=Z)
    blind, blind_low, blind_high = interval(per_episode(on, "blocks3/shuffled"), half_width=Z)
    return {
        "images/setting": bool(as_stated),
        "images/unseen_low": low,
        "images/unseen_high": high,
        "images/shuffled": blind,
        "images/shuffled_low": blind_low,
        "images/shuffled_high": blind_high,
        "images/episodes": len(on[0]["probe/tuned_hits"]),
        "images/contexts": chosen[0].data.n,
        "images/seeds": on[0]["blocks1/hits"].shape[0],
        "images/networks": len(on),
        "images/classes": glyphs.n_classes,
        "images/test_classes": glyphs.n_classes - glyphs.n_train,
        "images/penalty": [float(r["probe/penalty"]) for r in on],
        "images/minutes": sum(r.provenance["seconds"] for r in results.values()) / 60,
    }


def seen_records(results: Mapping[str, Results]) -> dict:
    """What features gain that learned to name the test classes too; one number for each pair of networks of one seed."""
    pairs = [
        (results[name], results[name.replace("unseen", "seen")])
        for name in results
        if name.startswith("images_unseen")
    ]
    found = {}
    for what, key in (
        ("probe/tuned_hits", "probe"),
        ("blocks1/hits", "blocks1"),
        ("blocks3/hits", "blocks3"),
    ):
        gains = [interval(per_episode([s], what) - per_episode([u], what), half_width=Z) for u, s in pairs]
        found[f"images/seen/{key}"] = [mean for mean, _, _ in gains]
        found[f"images/seen/{key}_low"] = [low for _, low, _ in gains]
        found[f"images/seen/{key}_accuracy"] = float(per_episode([s for _, s in pairs], what).mean())
    return found


def last_records(studies: Mapping[str, Study], results: Mapping[str, Results]) -> dict:
    """Episodes whose query always carries the last label: a constant answer, and what the models make of it."""
    last = results["images_last"]
    context: ImageContexts = studies["images_last"].data.prompts
    drawn = blocks(context.unseen, len(last["probe/tuned_hits"]), TEST)
    target = torch.cat([batch.target for batch in drawn], dim=-1)
    plain = next(r for name, r in results.items() if name.startswith("images_unseen"))  # the same network
    found = {"images/last/constant": float((target == context.task.few_shot.ways - 1).float().mean())}
    for k in BLOCKS:
        found[f"images/last/blocks{k}"] = float(per_episode([last], f"blocks{k}/hits").mean())
    found["images/last/blind"] = float(per_episode([last], "blocks3/shuffled").mean())
    found["images/last/probe"] = float(last["probe/tuned_hits"].mean())
    gain = per_episode([last], "blocks3/hits") - per_episode([plain], "blocks3/hits")
    mean, low, high = interval(gain, half_width=Z)
    return found | {"images/last/gain": mean, "images/last/gain_low": low, "images/last/gain_high": high}


def image_names(studies: Mapping[str, Study]) -> list[str]:
    """Names of the studies of the image part, networks first."""
    return [name for name in studies if name.startswith((STUDIES, "images_"))]
