"""recall2025: break the theory, and the rule of a named claim must turn red. Each mutation runs through the measurement that the chapter runs."""

from __future__ import annotations

import numpy as np
import pytest
from ledgers import ledger

from iclbook.models import RecallTransformer
from iclbook.papers.recall2025 import theory
from iclbook.papers.recall2025.measures import exact, first_jump, later, relaxed, stages
from iclbook.papers.recall2025.runs import trainings
from iclbook.papers.recall2025.theory import Population

LEDGER = ledger("recall2025")


def holds(claim: str, key: str, values: dict) -> bool:
    """Whether every part of this claim that reads ``key`` accepts what was measured."""
    parts = [p for p in LEDGER.claim(f"recall2025/{claim}").parts if p.key == key]
    assert parts, f"{claim} has no part on {key}"
    return all(p.rule.check(values[key], values) for p in parts)


def test_wrong_conserved_sign_turns_red(monkeypatch):
    assert holds("q-conserved-sign", "conserved/proof", first_jump.conservation((4,)))
    original = theory.potential
    monkeypatch.setattr(first_jump.theory, "potential", lambda a, k, sign: original(a, k, -sign))
    assert not holds("q-conserved-sign", "conserved/proof", first_jump.conservation((4,)))


def test_xi_off_by_its_factor_turns_red(monkeypatch):
    assert holds("q-xi", "ode/half", first_jump.sufficient_ode((4,)))
    module = __import__("iclbook.papers.recall2025.theory.first_jump", fromlist=["xi"])
    original = module.xi
    monkeypatch.setattr(
        module, "xi", lambda g, k, r, kappa=1.0, printed=True: original(g, k, r, kappa, not printed)
    )
    broken = first_jump.sufficient_ode((4,))
    assert not holds("q-xi", "ode/half", broken)
    assert not holds("q-xi", "ode/clock", broken)


def test_subdiagonal_turns_red(monkeypatch):
    assert holds("full-model", "full/loss_last", exact.construction_values(exact.construction()))
    original = RecallTransformer.__init__

    def flipped(self, *args, diagonal=1, a2=True, **kwargs):
        original(self, *args, diagonal=-diagonal, a2=False, **kwargs)

    monkeypatch.setattr(RecallTransformer, "__init__", flipped)
    assert not holds("full-model", "full/loss_last", exact.construction_values(exact.construction()))


def test_keys_near_the_beginning_left_out_turn_the_rate_red(monkeypatch):
    """Without the clipped histories at the beginning no key keeps a share of a match, and the loss falls as e^-c."""
    assert holds("q-construction-rate", "full/rate", exact.construction_values(exact.construction()))
    original = RecallTransformer.scores

    def later_keys_only(self, tokens):
        scores = original(self, tokens).clone()
        scores[:, : self.order] = -1e300
        return scores

    monkeypatch.setattr(RecallTransformer, "scores", later_keys_only)
    broken = exact.construction_values(exact.construction(sizes=(5.0, 10.0, 15.0, 20.0)))  # e^-40 is rounding
    assert not holds("q-construction-rate", "full/rate", broken)
    assert broken["full/rate"] == pytest.approx(-1, abs=0.01)


def test_wrong_window_turns_red(monkeypatch):
    """Heads that look one token too far see the response of the pair before instead of the last symbol."""
    original = Population.match.func
    monkeypatch.setattr(Population, "match", property(lambda self: np.roll(original(self), 1, axis=2)))
    assert not holds("task", "task/loss_deviation", exact.against_enumeration(draws=1))


def ce_plateaus() -> dict:
    pop = stages.experiment("ce")
    flow, times = stages.follow(pop, (0.1, 0.02, 0.004), beyond=1.0)
    return {"plateaus/ce": stages.plateau_errors(pop, flow.states[0], times)["loss"]}


def test_missing_chance_matches_turn_red(monkeypatch):
    """Cross-entropy without the other responses that agree by chance."""
    assert holds("q-ce-plateaus", "plateaus/ce", ce_plateaus())
    original = Population._laplace

    def without(self, s):
        u, weight, _, factor = original(self, s)
        only = np.zeros_like(factor)
        only[0] = 1
        return u, weight, np.exp(-u * s[0][..., None]), only

    monkeypatch.setattr(Population, "_laplace", without)
    assert not holds("q-ce-plateaus", "plateaus/ce", ce_plateaus())


def later_ratio() -> dict:
    found = later.later_jump(4, 2, 1e-3)
    return {"later/ratio": [found["ratio"]], "later/predicted": [found["predicted"]]}


def test_matched_offsets_removed_from_the_softmax_turn_red(monkeypatch):
    """If heads that still learn did not see offsets that learned heads hold, a later jump would be the reduced first jump."""
    assert holds("q-later-jump", "later/ratio", later_ratio())
    original = Population._attention

    def masked(self, w):
        a = original(self, w)
        learned = np.diagonal(a) > 0.999999  # heads on their own offset, exact at w = 60
        hide = learned[None, :] & ~learned[:, None]  # offsets of learned heads, for the others
        a = np.where(hide, 0.0, a)
        return a / a.sum(1, keepdims=True)

    monkeypatch.setattr(Population, "_attention", masked)
    broken = later_ratio()
    assert not holds("q-later-jump", "later/ratio", broken)
    assert broken["later/ratio"][0] == pytest.approx(1, abs=0.01)  # what the paper says


def test_a_softmax_over_everything_turns_the_normalised_model_red(monkeypatch):
    """Without the division by the sum the output is not that of A3."""
    assert holds(
        "full-dynamics", "full/A6_difference", {"full/A6_difference": relaxed.normalised_difference()}
    )
    original = RecallTransformer.response_weights

    def tilted(self, tokens):  # the sum of the output leaves a trace
        s = original(self, tokens)
        return s if self.a3 else s * (1 + s)

    monkeypatch.setattr(RecallTransformer, "response_weights", tilted)
    broken = {"full/A6_difference": relaxed.normalised_difference()}
    assert not holds("full-dynamics", "full/A6_difference", broken)


def test_gamma_left_out_turns_the_time_scale_red(monkeypatch):
    original = theory.jump_limit
    monkeypatch.setattr(first_jump.theory, "jump_limit", lambda k, r, kappa=1.0: original(k, r, 1.0))
    broken = [
        first_jump.jump_time(Population(stages.experiment().task, 4, 4, 0.5), 1e-3)
        * 1e-3
        / theory.jump_limit(4, 4, 1.5)
    ]
    assert not holds("q-eps-t", "timescale/limit_others", {"timescale/limit_others": broken})


def test_a_short_grid_turns_the_short_window_red():
    """The grid that stopped at ratio 10 and scale 0.3 found nothing for the window of three; the rule must be able to say so."""
    found = trainings.matching_settings(stages.experiment(window=3), (0.3, 0.1), (2.0, 4.0, 10.0))
    values = {"fig1/k/settings": sum(s.fits for s in found)}
    assert not holds("fig1", "fig1/k/settings", values)
