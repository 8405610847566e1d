"""Nagy 2026: a formal statement with its hypotheses, and the ways to weaken or to break it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from .formula import Atom, Text, label, reversed_conclusion, text

Builder = Callable[[Any], Any]

STATEMENT, SENTENCE, READING, ELSEWHERE, OURS = "statement", "sentence", "reading", "elsewhere", "ours"


@dataclass(frozen=True, eq=False)
class Proposition:
    """One sentence of the paper in formal terms.

    Attributes:
        id: ``A7``, or ``A7/equivalence`` for a further sentence of its paragraph.
        words: the paper's words, shortened.
        variables: the free variables, each ranging over the reals.
        conclusion: builder of what is said to follow.
        hypotheses: builders of what is printed as assumed.
        definitions: name to builder, in order; abbreviations that the sentence uses.
        role: ``statement`` (the theorem itself), ``sentence`` (said in the theorem's own paragraph), ``reading`` (a stricter or looser
            reading of it), ``elsewhere`` (said in the running text), ``ours`` (a repaired or complementary statement of this book).
        repair: a hypothesis that is meant to mend it; None where none is proposed.
        repair_for_all: variables that the conclusion, not the hypotheses, ranges over, where the repair is tested for being weakest.
        given: values that make equations among the hypotheses hold when points are drawn.
        key: under which what comes out is recorded; None where only tables show it.
    """

    id: str
    words: str
    variables: tuple[str, ...]
    conclusion: Builder
    hypotheses: tuple[Builder, ...] = ()
    definitions: Mapping[str, Builder] = field(default_factory=dict)
    role: str = STATEMENT
    repair: Builder | None = None
    repair_for_all: tuple[str, ...] = ()
    given: Mapping[str, Builder] = field(default_factory=dict)
    key: str | None = None

    def defined(self, values: Mapping[str, Any]) -> SimpleNamespace:
        """The variables with these values, and everything that is defined by them."""
        v = SimpleNamespace(**values)
        for name, build in self.definitions.items():
            setattr(v, name, build(v))
        return v

    def build(self, builder: Builder) -> Builder:
        """``builder`` as a function of the free variables alone."""
        return lambda v: builder(self.defined({name: getattr(v, name) for name in self.variables}))

    def assumed(self, *more: Builder) -> Builder:
        """Builder of the list of hypotheses, and of ``more``."""
        built = [self.build(h) for h in (*self.hypotheses, *more)]
        return lambda v: [b(v) for b in built]

    def names(self) -> SimpleNamespace:
        """Every variable and every defined name as text."""
        return SimpleNamespace(**{n: Text(label(n)) for n in (*self.variables, *self.definitions)})

    def definition_texts(self) -> list[str]:
        """``g = a·w − b`` and so on."""
        v = self.names()
        return [text(Atom("=", getattr(v, name), build(v))) for name, build in self.definitions.items()]

    def hypothesis_texts(self) -> list[str]:
        """The hypotheses as text, in order."""
        return [text(h(self.names())) for h in self.hypotheses]

    def conclusion_text(self) -> str:
        """The conclusion as text."""
        return text(self.conclusion(self.names()))

    def repair_text(self) -> str:
        """The mending hypothesis as text; empty where there is none."""
        return text(self.repair(self.names())) if self.repair else ""

    def without(self, index: int) -> Proposition:
        """The same without its hypothesis of that index."""
        kept = self.hypotheses[:index] + self.hypotheses[index + 1 :]
        return replace(self, id=f"{self.id} without {self.hypothesis_texts()[index]}", hypotheses=kept)

    def freed(self, name: str) -> Proposition:
        """The same with a defined name left free: its definition is not assumed."""
        rest = {n: b for n, b in self.definitions.items() if n != name}
        return replace(
            self, id=f"{self.id} with free {name}", variables=(*self.variables, name), definitions=rest
        )

    def reversed(self) -> Proposition:
        """The same with the order of its conclusion turned round, or the sign of the right side flipped."""
        return replace(
            self, id=f"{self.id} reversed", conclusion=lambda v: reversed_conclusion(self.conclusion(v))
        )

    def repaired(self) -> Proposition:
        """The same with the repair among the hypotheses."""
        assert self.repair is not None
        return replace(
            self, id=f"{self.id} repaired", hypotheses=(*self.hypotheses, self.repair), repair=None
        )


@dataclass(frozen=True)
class Induction:
    """A statement about sums of any length or any number of layers, as its first case and its step.

    The solver proves both; the principle of induction joins them (in the Coq files it is part of the proof). In the step the sums over
    the first d channels are variables about which only the induction hypothesis is known.

    Attributes:
        id, words, role, key: as for a :class:`Proposition`.
        assumes: its hypotheses as text.
        formal: the statement over all d as text.
        base: the first case.
        step: from d to d + 1.
    """

    id: str
    words: str
    assumes: tuple[str, ...]
    formal: str
    base: Proposition
    step: Proposition
    role: str = STATEMENT
    key: str | None = None

    def definition_texts(self) -> list[str]:
        """How it is decided."""
        return ["by induction over d: first case and step"]

    def hypothesis_texts(self) -> list[str]:
        """Its hypotheses as text."""
        return list(self.assumes)

    def conclusion_text(self) -> str:
        """The statement as text."""
        return self.formal
