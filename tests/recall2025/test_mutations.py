"""recall2025: break the theory, and the rule of a named claim must turn red. Each mutation runs through the measurement that the chapter runs."""

import numpy as np
import pytest
from ledgers import holds

from iclbook.models import RecallTransformer
from iclbook.papers.recall2025 import construction, simplifications, stages, subsequent_jumps, theorem_3_1
from iclbook.papers.recall2025 import theory as closed_forms
from iclbook.papers.recall2025.theory import Population


def held(claim: str, key: str, values: dict) -> bool:
    """Whether the claim's parts on ``key`` accept what was measured."""
    return holds(f"recall2025/{claim}", key, values[key], values)


def test_wrong_conserved_sign_turns_red(monkeypatch):
    assert held("q-conserved-sign", "conserved/proof", theorem_3_1.conservation((4,)))
    original = closed_forms.potential
    monkeypatch.setattr(closed_forms, "potential", lambda a, k, sign: original(a, k, -sign))
    assert not held("q-conserved-sign", "conserved/proof", theorem_3_1.conservation((4,)))


def test_xi_off_by_its_factor_turns_red(monkeypatch):
    assert held("q-xi", "ode/half", theorem_3_1.sufficient_ode((4,)))
    original = closed_forms.xi
    monkeypatch.setattr(
        closed_forms, "xi", lambda g, k, r, kappa=1.0, printed=True: original(g, k, r, kappa, not printed)
    )
    broken = theorem_3_1.sufficient_ode((4,))
    assert not held("q-xi", "ode/half", broken)
    assert not held("q-xi", "ode/clock", broken)


def test_subdiagonal_turns_red(monkeypatch):
    assert held("full-model", "full/loss_last", construction.construction_values(construction.construction()))
    original = RecallTransformer.__init__

    def flipped(self, *args, diagonal=1, a2=True, **kwargs):
        original(self, *args, diagonal=-diagonal, a2=False, **kwargs)

    monkeypatch.setattr(RecallTransformer, "__init__", flipped)
    assert not held("full-model", "full/loss_last", construction.construction_values(construction.construction()))


def test_keys_near_the_beginning_left_out_turn_the_rate_red(monkeypatch):
    """Without the clipped histories at the beginning no key keeps a share of a match, and the loss falls as e^-c."""
    assert held("full-model", "full/rate", construction.construction_values(construction.construction()))
    original = RecallTransformer.scores

    def later_keys_only(self, tokens):
        scores = original(self, tokens).clone()
        scores[:, : self.order] = -1e300
        return scores

    monkeypatch.setattr(RecallTransformer, "scores", later_keys_only)
    broken = construction.construction_values(
        construction.construction(sizes=(5.0, 10.0, 15.0, 20.0))
    )  # e^-40 is rounding
    assert not held("full-model", "full/rate", broken)
    assert broken["full/rate"] == pytest.approx(-1, abs=0.01)


def test_wrong_window_turns_red(monkeypatch):
    """Heads that look one token too far see the response of the pair before instead of the last symbol."""
    original = Population.match.func
    monkeypatch.setattr(Population, "match", property(lambda self: np.roll(original(self), 1, axis=2)))
    assert not held("task", "task/loss_deviation", construction.against_enumeration(draws=1))


def ce_plateaus() -> dict:
    pop = stages.experiment("ce")
    flow, times = stages.follow(pop, (0.1, 0.02, 0.004))
    return {"plateaus/ce": stages.plateau_errors(pop, flow.states[0], times)["loss"]}


def test_missing_chance_matches_turn_red(monkeypatch):
    """Cross-entropy without the other responses that agree by chance."""
    assert held("q-ce-plateaus", "plateaus/ce", ce_plateaus())
    original = Population._laplace

    def without(self, s):
        u, weight, _, factor = original(self, s)
        only = np.zeros_like(factor)
        only[0] = 1
        return u, weight, np.exp(-u * s[0][..., None]), only

    monkeypatch.setattr(Population, "_laplace", without)
    assert not held("q-ce-plateaus", "plateaus/ce", ce_plateaus())


def later_ratio() -> dict:
    ratio, predicted = subsequent_jumps.later_jump(4, 2)
    return {"later/ratio": [ratio], "later/predicted": [predicted]}


def test_matched_offsets_removed_from_the_softmax_turn_red(monkeypatch):
    """If heads that still learn did not see offsets that learned heads hold, a later jump would be the reduced first jump."""
    assert held("q-later-jump", "later/ratio", later_ratio())
    original = Population._attention

    def masked(self, w):
        a = original(self, w)
        learned = np.diagonal(a) > 0.999999  # heads on their own offset, exact at w = 60
        hide = learned[None, :] & ~learned[:, None]  # offsets of learned heads, for the others
        a = np.where(hide, 0.0, a)
        return a / a.sum(1, keepdims=True)

    monkeypatch.setattr(Population, "_attention", masked)
    broken = later_ratio()
    assert not held("q-later-jump", "later/ratio", broken)
    assert broken["later/ratio"][0] == pytest.approx(1, abs=0.01)  # what the paper says


def test_a_softmax_over_everything_turns_the_normalised_model_red(monkeypatch):
    """Without the division by the sum the output is not that of A3."""
    assert held("full-dynamics", "full/A6_difference", {"full/A6_difference": simplifications.normalised_difference()})
    original = RecallTransformer.response_weights

    def tilted(self, tokens):  # the sum of the output leaves a trace
        s = original(self, tokens)
        return s if self.a3 else s * (1 + s)

    monkeypatch.setattr(RecallTransformer, "response_weights", tilted)
    broken = {"full/A6_difference": simplifications.normalised_difference()}
    assert not held("full-dynamics", "full/A6_difference", broken)


@pytest.mark.parametrize(("rows", "columns"), [(slice(15, 20), slice(0, 5)), (slice(0, 5), slice(5, 10))])
def test_one_block_of_figure_three_out_of_place_is_seen(rows, columns):
    matrix = construction.solution_matrix()
    assert construction.figure_three(matrix)["fig3/blocks"]
    matrix[rows, columns] = matrix[rows, columns].max() == 0  # fills the empty block, empties the full one
    assert not construction.figure_three(matrix)["fig3/blocks"]
