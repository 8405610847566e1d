"""What claims rest on: the ``requires:`` of all ledgers as one graph, and the doubt that passes along it.

A verdict says what came out for a claim by itself. Where a premise does not hold or is undecided, what rests on it is in doubt, however many steps away, and
its badge says so; its verdict stays.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UserError
from .yaml_lines import Located, read_yaml

if TYPE_CHECKING:
    from .ledger import Claim, Ledger


def requires(entry: Located) -> tuple[str, ...]:
    """The ids that a claim of a ledger names as its premises.

    Raises:
        UserError: no list of ids, or one named twice.
    """
    if "requires" not in entry:
        return ()
    named: list[str] = []
    for item in entry["requires"].items_of_list():
        if not isinstance(item.value, str) or "/" not in item.value:
            raise item.error(f"requires {item.value!r}", "Write ids of claims, such as [he2025/kf1].")
        if item.value in named:
            raise item.error(f"requires {item.value!r} twice", "Name each premise once.")
        named.append(item.value)
    return tuple(named)


def check(ledgers: Sequence[Ledger], whole: bool = True) -> None:
    """Refuse premises that no claim is, and circles.

    Args:
        whole: whether these are all ledgers of the book; otherwise premises in other papers are left alone.

    Raises:
        UserError: names file, line and the mend.
    """
    papers = {ledger.paper for ledger in ledgers}
    claims = {claim.id: claim for ledger in ledgers for claim in ledger.claims}
    for ledger in ledgers:
        for claim in ledger.claims:
            for premise in claim.requires:
                if premise not in claims and (whole or premise.partition("/")[0] in papers):
                    near = difflib.get_close_matches(premise, claims, 1)
                    mend = f"Did you mean {near[0]!r}?" if near else "`iclbook claims` lists all claims."
                    raise _error(
                        ledger, claim.id, f"{claim.id} requires {premise!r}, which is no claim", mend
                    )
    circle = _circle(claims)
    if circle:
        ledger = next(ledger for ledger in ledgers if ledger.paper == circle[0].partition("/")[0])
        problem = f"{circle[0]} requires itself"
        if len(circle) > 2:
            problem += f" by way of {', '.join(circle[1:-1])}"
        raise _error(
            ledger, circle[0], problem, "Delete one of these premises: no argument runs in a circle."
        )


def _error(ledger: Ledger, claim_id: str, problem: str, mend: str) -> UserError:
    """An error at the claim's ``requires:``; the ledger is read again for its line."""
    for entry in read_yaml(ledger.path)["claims"].items_of_list():
        if entry.text("id") == claim_id:
            return entry["requires"].error(problem, mend)
    raise AssertionError(f"{claim_id} is not in its own ledger")


def _circle(claims: Mapping[str, Claim]) -> list[str]:
    """The claims of one circle, the first again at its end; none, the empty list."""
    done: set[str] = set()
    for start in claims:
        path: list[str] = []
        todo = [(start, 0)]
        while todo:
            name, depth = todo.pop()
            del path[depth:]
            if name in path:
                return [*path[path.index(name) :], name]
            path.append(name)
            if name not in done:
                done.add(name)
                todo += [(p, depth + 1) for p in claims[name].requires if p in claims]
    return []


@dataclass(frozen=True)
class Premises:
    """The graph, both ways.

    Attributes:
        rests: claim -> the claims that it names as its premises, in the ledger's order.
        carries: claim -> the claims that name it.
    """

    rests: Mapping[str, tuple[str, ...]]
    carries: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, claims: Sequence[Claim]) -> Premises:
        """The graph of these claims."""
        rests = {claim.id: claim.requires for claim in claims if claim.requires}
        carries: dict[str, tuple[str, ...]] = {}
        for claim_id, named in rests.items():
            for premise in named:
                carries[premise] = (*carries.get(premise, ()), claim_id)
        return cls(rests, carries)

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Every (premise, what rests on it) once."""
        return [(premise, claim) for claim, named in self.rests.items() for premise in named]

    def below(self, claim_id: str) -> list[str]:
        """All that a claim rests on, directly or not, the nearest first."""
        found: list[str] = []
        todo = [*self.rests.get(claim_id, ())]
        while todo:
            name = todo.pop(0)
            if name not in found:
                found.append(name)
                todo += self.rests.get(name, ())
        return found

    def doubts(self, claim_id: str, words: Mapping[str, str]) -> list[str]:
        """Those of them that do not hold or are undecided, by the words of their verdicts."""
        return [name for name in self.below(claim_id) if words[name] in DOUBTS]


#: How a premise that leaves in doubt what rests on it is told, by the word of its verdict, of one and of several; one that holds in part, or in one reading, stands.
DOUBTS = {
    "not reproduced": ("did not reproduce", "did not reproduce"),
    "inconsistent": ("is inconsistent", "are inconsistent"),
    "no": ("is answered no", "are answered no"),
    "too close to call": ("is too close to call", "are too close to call"),
    "out of reach": ("is out of reach", "are out of reach"),
    "not yet tested": ("is not yet tested", "are not yet tested"),
    "open": ("is open", "are open"),
}
