"""The faults that `make mutants` plants: of every kind, programs, and on lines that are there."""

import ast

import mutants
import pytest
from mutations import faults_in


@pytest.mark.parametrize(
    ("code", "kind", "planted"),
    [
        ("a < b", "boundary", "(a <= b)"),
        ("a < b", "comparison", "(a > b)"),
        ("a + b", "sign", "(a - b)"),
        ("-a", "sign", "(a)"),
        ("a - b", "order", "(b - a)"),
        ("a / b", "quotient", "(b / a)"),
        ("2.5 * a", "factor", "(5.0) * a"),
        ("a[..., -1]", "index", "a[..., (-2)]"),
        ("a[1:]", "index", "a[(2):]"),
        ("a.mean(0)", "axis", "(a.mean(1))"),
        ("np.sum(a, axis=-1)", "axis", "(np.sum(a, axis=0))"),
        ("a.min()", "counterpart", "(a.max())"),
        ("np.maximum(a, b)", "counterpart", "(np.minimum(a, b))"),
        ("a.std(ddof=1)", "ddof", "(a.std(ddof=0))"),
        ("draw(seed=7)", "seed", "(draw(seed=0))"),
        ("{'p': a, 'q': b}", "neighbour", "{'p': (b), 'q': b}"),
    ],
)
def test_each_kind_of_fault(code, kind, planted):
    found = [fault for fault in faults_in(f"x = {code}\n", "papers/key/m.py") if fault.kind == kind]
    assert f"x = {planted}\n" in [fault.planted(f"x = {code}\n") for fault in found]


def test_every_fault_of_a_paper_is_a_program():
    for paper in ("he2025", "recall2025"):
        for fault in mutants.faults_of(paper, 60):
            text = (mutants.ROOT / fault.path).read_text()
            changed = fault.planted(text)
            assert changed != text
            ast.parse(changed)


def test_what_changes_nothing_is_drawn_and_does_not_count():
    papers = sorted({where.partition("/")[0] for where, _ in mutants.CHANGES_NOTHING})
    known = [fault for paper in papers for fault in mutants.faults_of(paper, 22) if mutants.why_nothing(fault)]
    assert len(known) == len(mutants.CHANGES_NOTHING), "each is drawn, and none is taken for another"
    of_one = [fault for fault in known if fault.paper == "he2025"]
    other = next(fault for fault in mutants.faults_of("he2025", 22) if fault not in known)
    said, enough = mutants.summary(
        [mutants.Outcome(fault, "survived") for fault in of_one] + [mutants.Outcome(other, "caught")]
    )
    assert enough, said
    assert "1 of 1 caught (100%), 1 more change nothing" in said
    assert not mutants.summary([mutants.Outcome(other, "survived")])[1]
