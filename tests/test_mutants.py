"""The faults that `make mutants` plants are programs, and those that change nothing do not count."""

import ast

import mutants


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
