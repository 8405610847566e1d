"""What claims rest on: the ``requires:`` of all ledgers as one graph.

A verdict says what came out for a claim by itself. Where a premise does not hold or is undecided, what rests on it is in doubt, however many steps away, and
its badge says so; its verdict stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .ledger import Claim

#: How a premise is described that leaves in doubt what rests on it, by the word of its verdict, for one and for several.
DOUBTS = {
    "not reproduced": ("did not reproduce", "did not reproduce"),
    "inconsistent": ("is inconsistent", "are inconsistent"),
    "no": ("is answered no", "are answered no"),
    "too close to call": ("is too close to call", "are too close to call"),
    "out of reach": ("is out of reach", "are out of reach"),
    "not yet tested": ("is not yet tested", "are not yet tested"),
    "open": ("is open", "are open"),
}


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
