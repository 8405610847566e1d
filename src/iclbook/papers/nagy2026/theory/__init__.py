"""Nagy 2026, "When In-Context Learning Implements Gradient Descent": the thirty theorems, checked, and the printed numbers, recomputed.

formula (a statement written once for text, solver, fractions and floats), proposition (hypotheses, conclusion, repair), descent, softmax,
depth, construction and sums (the statements), smt (the solver), numeric (floating point), checking (verdict words, tables, records),
mutations (everything broken once), printed (rounding intervals), statistics, rates, arithmetic (all printed numbers). The same statements
in Coq are in the folder ``proofs``.
"""

from __future__ import annotations

from .arithmetic import by_section, recompute_all
from .arithmetic import records as arithmetic_records
from .arithmetic import table as arithmetic_table
from .checking import THIRTY, Result, check, check_all, equations, failing, propositions, sentences, thirty
from .checking import records as theory_records
from .checking import rows as statement_rows
from .mutations import Mutation, mutations
from .mutations import records as mutation_records
from .mutations import rows as mutation_rows
from .numeric import evaluate
from .printed import Item, Recomputed, Rounded, Within, box, recompute
from .proposition import Proposition
from .rates import SPECTRUM, balanced_rate, best_loss_rate, best_mean_rate, candidates, matches, residuals
from .smt import Answer, decide
from .statistics import fisher_interval, p_of_means, p_of_r, p_of_t, spearman_exact_p, t_of_r
from .sums import INDUCTIONS, Induction

__all__ = [
    "INDUCTIONS",
    "SPECTRUM",
    "THIRTY",
    "Answer",
    "Induction",
    "Item",
    "Mutation",
    "Proposition",
    "Recomputed",
    "Result",
    "Rounded",
    "Within",
    "arithmetic_records",
    "arithmetic_table",
    "balanced_rate",
    "best_loss_rate",
    "best_mean_rate",
    "box",
    "by_section",
    "candidates",
    "check",
    "check_all",
    "decide",
    "equations",
    "evaluate",
    "failing",
    "fisher_interval",
    "matches",
    "mutation_records",
    "mutation_rows",
    "mutations",
    "p_of_means",
    "p_of_r",
    "p_of_t",
    "propositions",
    "recompute",
    "recompute_all",
    "residuals",
    "sentences",
    "spearman_exact_p",
    "statement_rows",
    "t_of_r",
    "theory_records",
    "thirty",
]
