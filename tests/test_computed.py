"""Computations that are kept as results: in parts as alone, and made again to verify them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from iclbook import random, store
from iclbook.errors import UserError
from iclbook.training import Catalogue, Computation
from iclbook.training import computation as computed

TILT = [1.0]


def powers(group, members):
    """Powers of each member, and its neighbours in the plane."""
    power = {"square": 2, "cube": 3}[group]
    found = np.array([TILT[0] * float(k) ** power for k in members])
    return {"power": found, "around": found[:, None, None] + np.arange(6.0).reshape(2, 3)}


def edges(group, members):
    """Whether a number that rounding decides is large."""
    jitter, start = random.replica_errors(), torch.full((len(members),), 1.1, dtype=torch.float64)
    large = (start > 1.1) | (TILT[0] > 1) if jitter is None else random.jittered(start, jitter) > 1.1
    return {"side": large.numpy(), "size": np.ones(len(members))}


def gone(group, members):
    """No number for odd members."""
    return {"value": np.array([np.nan if k % 2 else k * TILT[0] for k in members])}


POWERS = Computation("toys", "powers", powers, ("square", "cube"), 3, 5, 1e-9)


@pytest.fixture(autouse=True)
def _untilted(empty_root, monkeypatch):
    monkeypatch.setattr(f"{__name__}.TILT", [1.0])


def test_parts_give_what_one_process_gives_in_the_order_of_the_members():
    whole = computed.compute(POWERS, "paper", progress=False)
    assert whole["square/power"].tolist() == [9, 16, 25, 36, 49]
    assert whole["cube/around"].shape == (5, 2, 3)
    with ThreadPoolExecutor(1) as executor:
        for parts in (2, 3, 9):
            shared = computed.compute(POWERS, "paper", executor=executor, parts=parts)
            assert {k: v.tolist() for k, v in shared.arrays.items()} == {k: v.tolist() for k, v in whole.arrays.items()}
    kept = store.load("toys", "paper", "powers", POWERS.describe(), POWERS.source())
    assert kept["cube/power"].tolist() == [27, 64, 125, 216, 343]


def test_what_is_made_again_must_agree():
    made = computed.compute(POWERS, "paper", progress=False)
    assert computed.deviation(POWERS, made) == computed.deviation(POWERS, made, every=True) == 0
    for tilt, share in ((1 + 5e-10, 0.5), (1 + 2e-9, 2.0)):
        TILT[0] = tilt
        assert computed.deviation(POWERS, made) == pytest.approx(share, rel=0.01)
    assert computed.verify_computation(replace(POWERS, within=1e-6), "paper")["share"] == 0.002
    with pytest.raises(UserError, match="deviates by 2 times"):
        computed.verify_computation(POWERS, "paper")


def test_one_member_of_five_is_made_again_and_every_one_if_asked(monkeypatch):
    made, asked = computed.compute(POWERS, "paper", progress=False), []
    watching = replace(POWERS, compute=lambda group, members: asked.append((group, *members)) or powers(group, members))
    computed.deviation(watching, made)
    assert asked == [("square", 5), ("cube", 7)], "another one in each group"
    computed.deviation(watching, made, every=True)
    assert asked[2:] == [("square", 3, 4, 5, 6, 7), ("cube", 3, 4, 5, 6, 7)]
    wrong = store.Results({k: v.copy() for k, v in made.arrays.items()}, made.provenance)
    wrong.arrays["cube/around"][3, 1, 2] += 1e-3
    assert computed.deviation(POWERS, wrong) == 0
    assert computed.deviation(POWERS, wrong, every=True) > 1


def test_what_rounding_decides_is_no_deviation():
    computation = Computation("toys", "edges", edges, ("one",), 0, 4, 1e-9, replicas=16)
    made = computed.compute(computation, "paper", progress=False)
    TILT[0] = 2.0
    assert computed.deviation(computation, made) < 1, "replicas lie on both sides"
    assert computed.deviation(replace(computation, replicas=0), made) > 1, "and are asked only where there are any"
    wrong = store.Results(made.arrays | {"one/size": 1.1 * made["one/size"]}, made.provenance)
    assert computed.deviation(computation, wrong) > 1, "replicas agree on this"


def test_a_catalogue_makes_loads_and_verifies_computations(capsys):
    catalogue = Catalogue("toys", lambda profile: {"powers": POWERS})
    with pytest.raises(UserError, match="no results"):
        catalogue.results("powers", "paper")
    assert catalogue.results("powers", "smoke")["square/power"][0] == 9
    catalogue.train(profile="paper")
    assert "powers: 5 members of 2 groups" in capsys.readouterr().out
    catalogue.train(profile="paper", verify=True)
    assert "1 of 5 members of every group" in capsys.readouterr().out
    changed = Catalogue("toys", lambda profile: {"powers": replace(POWERS, count=4)})
    with pytest.raises(UserError, match="another configuration"):
        changed.results("powers", "paper")
    about = store.read_provenance("toys", "paper", "powers")
    store.update_digest("toys", "paper", "powers", {"a": "f 00000000"})
    with pytest.raises(UserError, match="other training code"):
        catalogue.results("powers", "paper")
    assert about["source"] == POWERS.source()
