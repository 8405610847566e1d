"""recall2025: rules of the ledger that a wrong theory or a wrong figure must turn red."""

import numpy as np
import pytest
from ledgers import holds

from iclbook.papers.recall2025 import construction, theorem_3_1
from iclbook.papers.recall2025 import theory as closed_forms
from iclbook.papers.recall2025.theory import Population


def test_the_conserved_quantity_has_its_sign(monkeypatch):
    right, found = closed_forms.potential, []
    for factor in (1, -1):
        monkeypatch.setattr(closed_forms, "potential", lambda a, k, sign, factor=factor: right(a, k, factor * sign))
        proof = theorem_3_1.conservation((4,))["conserved/proof"]
        found.append(holds("recall2025/q-conserved-sign", "conserved/proof", proof))
    assert found == [True, False]


def test_heads_that_look_one_token_too_far_disagree_with_the_enumeration(monkeypatch):
    right, found = Population.match.func, []
    for shift in (0, 1):
        monkeypatch.setattr(Population, "match", property(lambda self, by=shift: np.roll(right(self), by, axis=2)))
        deviation = construction.against_enumeration(draws=1)["task/loss_deviation"]
        found.append(holds("recall2025/task", "task/loss_deviation", deviation))
    assert found == [True, False]


@pytest.mark.parametrize(("rows", "columns"), [(slice(15, 20), slice(0, 5)), (slice(0, 5), slice(5, 10))])
def test_one_block_of_figure_three_out_of_place_is_seen(rows, columns):
    matrix = construction.solution_matrix()
    assert construction.figure_three(matrix)["fig3/blocks"]
    matrix[rows, columns] = matrix[rows, columns].max() == 0  # fills the empty block, empties the full one
    assert not construction.figure_three(matrix)["fig3/blocks"]
