"""Claims: what a paper says, the rule that decides it, what was measured, and the verdict that follows."""

from .ledger import Claim, Ledger, all_ledgers, ledger_of, load_ledger, printed
from .record import Record, read_records
from .recorder import Recorder
from .verdicts import Verdict, judge
