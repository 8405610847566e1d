"""The thirty theorems of nagy2026, checked, its printed numbers, recomputed, and closed forms of what is trained.

Statements: tables of them (descent, softmax, depth, construction), read by notation, as propositions made of formulas; decided by smt and
numeric, put together by checking, broken by mutations. The same statements in Coq are in the folder ``proofs``.
Printed numbers: arithmetic (the table of all), printed (what rounding allows), quantities (how each is recomputed), statistics, rates.
Models: von_oswald, reweighting, heads, one_layer, probe, architectures.
"""
