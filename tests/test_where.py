"""The index from a paper's items to files: each query finds the true one, and an unknown item gets one clear line."""

import pytest

from iclbook.errors import UserError
from iclbook.project import find_root
from iclbook.where import items, where


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("agarwal2025 Figure 6", "file      src/iclbook/papers/agarwal2025/figures_6_to_8.py"),
        ("attention_gradients figure 6", "claim     agarwal2025/fig6-8"),
        ("recall2025 Figure 3", "file      src/iclbook/papers/recall2025/figures_2_and_3.py"),
        ("he2025/fig2.4", "study     isotropic"),
        ("he2025 Figure 3.3", "study     multitask_code"),
        ("isotropic", "file      src/iclbook/papers/he2025/runs.py"),
        ("wang2025 Theorem 2", "chapter   notebooks/categorical_data.py"),
        ("noise_var", "function  src/iclbook/tasks/linear_regression.py"),
        ("colours", "file      src/iclbook/drawing/style.py"),
    ],
)
def test_a_query_finds_the_file(query: str, expected: str) -> None:
    assert any(line.startswith(expected) for line in where(query, find_root()))


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("agarwal2025 Figure 60", "'agarwal2025 figure 6'"),
        ("he2025/fig2.44", "'he2025/fig2.4'"),
        ("qwxyz", "iclbook where agarwal2025 Figure 6"),
        ("he2025", "'he2025/"),
    ],
)
def test_an_unknown_item_gets_a_near_one(query: str, hint: str) -> None:
    with pytest.raises(UserError, match=f"nothing in the book is called '{query}'") as error:
        where(query, find_root())
    assert hint in str(error.value)


def test_ranges_and_lists_of_items_are_read():
    text = "Figures 1, 2.1-2.3 and 2.6, appendices A.2 and B, lemmas C.1 to C.3; it is 5 to 7 times as large"
    figures = {f"figure {number}" for number in ("1", "2.1", "2.2", "2.3", "2.6")}
    assert items(text) == figures | {"appendix a.2", "lemma c.1", "lemma c.2", "lemma c.3"}
