"""Claims: what a paper says, the rule that decides it, what was measured, and the verdict that follows."""

from .ledger import Claim, Ledger, Part, all_ledgers, ledger_of, load_ledger, printed, read_ledger
from .records import Record, Recorder, read_records
from .rules import parse_rule
from .verdicts import WORDS, Verdict, judge, verdict

__all__ = [
    "WORDS",
    "Claim",
    "Ledger",
    "Part",
    "Record",
    "Recorder",
    "Verdict",
    "all_ledgers",
    "judge",
    "ledger_of",
    "load_ledger",
    "parse_rule",
    "printed",
    "read_ledger",
    "read_records",
    "verdict",
]
