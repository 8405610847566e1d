"""Claims: what a paper says, the rule that decides it, what was measured, and the verdict that follows."""

from .ledger import Claim, Ledger, Part, Rule, parse_rule
from .reading import all_ledgers, ledger_keys, load_ledger, printed, read_ledger
from .records import Record, Recorder, read_records
from .verdicts import WORDS, PartResult, Verdict, judge, verdict

__all__ = [
    "WORDS",
    "Claim",
    "Ledger",
    "Part",
    "PartResult",
    "Record",
    "Recorder",
    "Rule",
    "Verdict",
    "all_ledgers",
    "judge",
    "ledger_keys",
    "load_ledger",
    "parse_rule",
    "printed",
    "read_ledger",
    "read_records",
    "verdict",
]
