"""A grammar of stories whose likelihood is exact: a plot graph of sentence kinds, templates of each kind, and registers that remember.

A story is a sequence of sentences. After a sentence the plot graph chooses the kind of the next, the kind a template, the template's slots their words. Templates
that may follow one another are merged into a tree, so that what has been read tells at every token which choices are left; a token belongs to one choice
only (:meth:`Grammar.check`). So the derivation of a story is unique, its probability the product of its choices, and the distribution of the next token
a sum of nothing.

Items of a template, separated by spaces:

- ``word``: itself.
- ``+x``: the first mention of x: any word of the class of x not yet used in that class, kept in register x.
- ``@x``: x again: the word in its register, or a form of it (``@he`` of the hero's name).
- ``an+x``, ``an@x``: ``a`` or ``an``, as the word that must follow begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from ..errors import UserError

END = "<eos>"
VOWELS = "aeiou"


class Kind(IntEnum):
    """What fixes a token: the sentence so far, something said before, the plot's next sentence, or nothing."""

    SYNTAX = 0
    BIND = 1
    PLOT = 2
    FREE = 3


class Option(NamedTuple):
    """A token that may come next, with a whole-number weight, and the register that it fills."""

    token: str
    weight: int
    register: str | None


@dataclass
class Node:
    """A place within sentences: items that may come next, each with the total weight of the templates beyond it."""

    children: dict[str, Node] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    #: Of a sentence that ends here: its kind and its trouble, if it names one.
    ends: tuple[str, str] | None = None

    @cached_property
    def items(self) -> tuple[str, ...]:
        return tuple(self.children)

    @cached_property
    def total(self) -> int:
        return sum(self.weights.values())


class State(NamedTuple):
    """What has been read: the place, the registers, and which trouble the story is about (``""`` before it begins)."""

    node: Node
    registers: Mapping[str, str]
    trouble: str


class Step(NamedTuple):
    """One token's choice: log probability as an exact fraction, what kind of choice, and what was read after it."""

    probability: Fraction
    kind: Kind
    state: State | None  # None: the story has ended


def article(word: str) -> str:
    """``a`` or ``an``."""
    return "an" if word[0] in VOWELS else "a"


@dataclass(frozen=True, eq=False)
class Grammar:
    """A plot graph with templates and classes of words.

    Args:
        start: the kind of the first sentence.
        graph: ``kind -> {next kind: weight}``; the kind :data:`END` ends the story.
        templates: ``kind -> (template, ...)``. A template that begins with ``trouble=x:`` makes x the story's trouble, one that begins with ``x:`` belongs to it,
            any other to all.
        classes: ``class -> words``.
        registers: ``register -> class``; registers of one class never hold the same word.
        forms: ``form -> (register, {word: form of it})``.

    Raises:
        UserError: a kind, a class or a form that is missing.
    """

    start: str
    graph: Mapping[str, Mapping[str, int]]
    templates: Mapping[str, tuple[str, ...]]
    classes: Mapping[str, tuple[str, ...]]
    registers: Mapping[str, str]
    forms: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    _trees: dict = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        named = {kind for followers in self.graph.values() for kind in followers} | {self.start}
        known = {item[1:] for item in self.template_items() if item[0] in "+@"}
        missing = (named - {END} - set(self.templates)) | (known - set(self.registers) - set(self.forms))
        missing |= set(self.registers.values()) - set(self.classes)
        if missing:
            raise UserError(f"the grammar lacks {sorted(missing)}", "Define every kind, register and class.")

    def template_items(self) -> set[str]:
        """All items of all templates, ``an+x`` and ``an@x`` as the mention within."""
        texts = (split_template(text)[2] for group in self.templates.values() for text in group)
        return {item.removeprefix("an") if item[:3] in ("an+", "an@") else item for t in texts for item in t}

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens, sorted; the end comes first."""
        words = {word for group in self.classes.values() for word in group} | {"a", "an"}
        words |= {form for _, forms in self.forms.values() for form in forms.values()}
        words |= {item for item in self.template_items() if item[0] not in "+@"}
        return (END, *sorted(words - {END}))

    @cached_property
    def index(self) -> dict[str, int]:
        """Place of every token in the vocabulary."""
        return {word: i for i, word in enumerate(self.vocabulary)}

    # -- what may come next -------------------------------------------------------------------------------------------

    def begin(self) -> State:
        """Nothing read."""
        return State(self._tree({self.start: 1}, ""), {}, "")

    def _tree(self, kinds: Mapping[str, int], trouble: str) -> Node:
        """Templates of these kinds merged; each kind's weight is shared evenly among its templates."""
        key = (tuple(kinds.items()), trouble)
        if key not in self._trees:
            groups = {
                kind: [s for s in map(split_template, self.templates.get(kind, ())) if s[1] in ("", trouble)]
                for kind in kinds
            }
            whole = math.lcm(*(max(1, len(group)) for group in groups.values()))
            root = Node()
            for kind, weight in kinds.items():
                if kind == END:
                    _plant(root, (END,), weight * whole, (END, ""))
                for names, _, items in groups[kind]:
                    _plant(root, items, weight * whole // len(groups[kind]), (kind, names))
            self._trees[key] = root
        return self._trees[key]

    def options(self, item: str, registers: Mapping[str, str]) -> list[Option]:
        """Tokens that an item may become. An article already read (``registers["an"]``) limits the word that follows."""
        if item[:3] == "an@":
            return [Option(article(self.words("@" + item[3:], registers)[0]), 1, None)]
        if item[:3] == "an+":
            counts = {"a": 0, "an": 0}
            for word in self.words("+" + item[3:], registers):
                counts[article(word)] += 1
            return [Option(a, n, "an") for a, n in counts.items() if n]
        register = item[1:] if item[0] == "+" else None
        words = self.words(item, registers)
        if register is not None and "an" in registers:
            words = [w for w in words if article(w) == registers["an"]]
        return [Option(word, 1, register) for word in words]

    def words(self, item: str, registers: Mapping[str, str]) -> list[str]:
        """Words of an item without regard to articles."""
        if item[0] == "@":
            name = item[1:]
            if name in self.forms:
                register, forms = self.forms[name]
                return [forms[registers[register]]]
            return [registers[name]]
        if item[0] == "+":
            group = self.registers[item[1:]]
            used = {registers[r] for r, c in self.registers.items() if c == group and r in registers}
            return [word for word in self.classes[group] if word not in used]
        return [item]

    def steps(self, state: State) -> Iterator[tuple[str, Step]]:
        """All tokens that may come next, each with its choice."""
        node = state.node
        for item in node.items:
            options = self.options(item, state.registers)
            total = sum(o.weight for o in options)
            for option in options:
                share = Fraction(node.weights[item] * option.weight, node.total * total)
                yield (
                    option.token,
                    Step(share, self._kind(node, item, options), self._after(state, item, option)),
                )

    def _kind(self, node: Node, item: str, options: list[Option]) -> Kind:
        if item[0] == "@" or item[:3] == "an@":
            return Kind.BIND
        if len(node.items) > 1:
            return Kind.PLOT
        return Kind.FREE if len(options) > 1 else Kind.SYNTAX

    def _after(self, state: State, item: str, option: Option) -> State | None:
        """What has been read after this token."""
        node, registers, trouble = state.node.children[item], state.registers, state.trouble
        if option.register is not None:
            registers = {k: v for k, v in registers.items() if k != "an"} | {option.register: option.token}
        if node.ends is None:
            return State(node, registers, trouble)
        kind, names = node.ends
        if kind == END:
            return None
        return State(self._tree(self.graph[kind], names or trouble), registers, names or trouble)

    # -- exact likelihood ---------------------------------------------------------------------------------------------

    def read(self, tokens: list[str]) -> Iterator[Step]:
        """The choices of a story or of the beginning of one.

        Raises:
            UserError: a token that cannot follow.
        """
        state: State | None = self.begin()
        for place, token in enumerate(tokens):
            found = None if state is None else next((s for t, s in self.steps(state) if t == token), None)
            if found is None:
                raise UserError(f"{token!r} cannot be token {place + 1}", "Read a story of this grammar.")
            yield found
            state = found.state

    def next_distribution(self, prefix: list[str]) -> dict[str, Fraction]:
        """Exact distribution of the token after a beginning; nothing follows the end."""
        state: State | None = self.begin()
        for step in self.read(prefix):
            state = step.state
        return {} if state is None else {token: step.probability for token, step in self.steps(state)}

    def draw(self, words: Iterator[int]) -> list[str]:
        """A story from random words below 2**32: one for every choice among several, in order, by exact integer arithmetic."""
        state: State | None = self.begin()
        story: list[str] = []
        while state is not None:
            node = state.node
            item = node.items[0]
            if len(node.items) > 1:
                item = node.items[_chosen(list(node.weights.values()), node.total, next(words))]
            options = self.options(item, state.registers)
            option = options[0]
            if len(options) > 1:
                weights = [o.weight for o in options]
                option = options[_chosen(weights, sum(weights), next(words))]
            story.append(option.token)
            state = self._after(state, item, option)
        return story

    def check(self, state: State) -> None:
        """Refuse a place at which a token belongs to two choices: the derivation would not be unique.

        Raises:
            UserError: naming the token.
        """
        seen: set[str] = set()
        for token, _ in self.steps(state):
            if token in seen:
                raise UserError(f"{token!r} belongs to two choices", "Let templates begin differently.")
            seen.add(token)


def split_template(text: str) -> tuple[str, str, tuple[str, ...]]:
    """The trouble that a template names, the one that it belongs to (``""`` for none, for all), and its items."""
    head, colon, rest = text.partition(": ")
    if not colon:
        return "", "", tuple(text.split())
    if head.startswith("trouble="):
        return head.removeprefix("trouble="), "", tuple(rest.split())
    return "", head, tuple(rest.split())


def _plant(root: Node, items: tuple[str, ...], weight: int, ends: tuple[str, str]) -> None:
    """Add a template to a tree.

    Raises:
        UserError: one of two templates is the beginning of the other.
    """
    node = root
    for item in items:
        node.weights[item] = node.weights.get(item, 0) + weight
        node = node.children.setdefault(item, Node())
        if node.ends is not None:
            raise UserError(
                f"a template begins with all of {' '.join(items)!r}", "Let one of them end differently."
            )
    if node.children:
        raise UserError(
            f"another template begins with {' '.join(items)!r}", "Let one of them end differently."
        )
    node.ends = ends


def _chosen(weights: list[int], total: int, word: int) -> int:
    """Index of a choice with these weights: ``floor(total word / 2**32)`` falls into its share."""
    rest = (total * word) >> 32
    for i, weight in enumerate(weights):
        rest -= weight
        if rest < 0:
            return i
    raise AssertionError("words are below 2**32")
