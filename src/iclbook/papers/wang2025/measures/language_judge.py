"""A judge of story endings that is no language model: what section 6.3 asks GPT-4o for, counted in the grammar of the stories (wang2025, table 3).

Four grades from 0 to 10, as in figure 12's prompt:

- grammar: share of the ending's words in sentences that some template can say, whoever they are about;
- consistency: half for completing the sentence that was cut, half for the share of mentions that agree with the beginning;
- plot: half for the share of steps from sentence to sentence that the plot graph allows, half for a closed end (a result, its moral, the end), whatever the beginning;
- creativity: how unlike those of the other endings the choices of words and sentences are (one minus the share of others that chose the same), times the share of
  4-grams that are not repeated; the true endings have 10 on average.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ....tasks.story_grammar import END, Grammar, State, article, split_template

GRADES = ("grammar", "consistency", "plot", "creativity")


class Sentence(NamedTuple):
    """A sentence that a template can say: its kind, the trouble that it names or belongs to, the template, and what each slot was given."""

    kind: str
    trouble: str
    template: str
    slots: tuple[tuple[int, str, str], ...]  # place, item (``+x`` or ``@x``), word


@lru_cache(maxsize=1 << 16)
def parse(grammar: Grammar, tokens: tuple[str, ...]) -> Sentence | None:
    """The sentence as some template says it, with any words in its slots; a register met twice must agree with itself."""
    for kind, trouble, text, items in _templates(grammar).get(len(tokens), ()):
        slots = _slots(grammar, items, tokens)
        if slots is not None:
            return Sentence(kind, trouble, text, slots)
    return None


@lru_cache(maxsize=8)
def _templates(grammar: Grammar) -> dict[int, list[tuple[str, str, str, tuple[str, ...]]]]:
    """Templates by their number of items, in the grammar's order: kind, trouble named or belonged to, text, items."""
    found: dict = {}
    for kind, texts in grammar.templates.items():
        for text in texts:
            names, belongs, items = split_template(text)
            found.setdefault(len(items), []).append((kind, names or belongs, text, items))
    return found


def _slots(grammar: Grammar, items: Sequence[str], tokens: Sequence[str]) -> tuple | None:
    """What each slot was given, or ``None`` where a token does not fit."""
    slots, own = [], {}
    for place, (item, token) in enumerate(zip(items, tokens, strict=True)):
        if item[:3] in ("an+", "an@"):
            if token != article(tokens[place + 1]):
                return None
        elif item[0] not in "+@":
            if token != item:
                return None
        else:
            name = item[1:]
            if name in grammar.forms:
                register, forms = grammar.forms[name]
                fits = token in forms.values() and (register not in own or forms[own[register]] == token)
            else:
                fits = (
                    token in grammar.classes[grammar.registers[name]] and own.setdefault(name, token) == token
                )
            if not fits:
                return None
            slots.append((place, item, token))
    return tuple(slots)


def sentences(tokens: Sequence[str]) -> list[list[str]]:
    """Tokens as sentences: up to a full stop, or to the quotation mark behind a question."""
    found: list[list[str]] = [[]]
    for token in tokens:
        found[-1].append(token)
        if token == "." or (token == '"' and found[-1][-2:-1] == ["?"]):
            found.append([])
    return [s for s in found if s]


@dataclass(frozen=True)
class Ending:
    """A story as continued.

    Attributes:
        words: of the ending, without the end of the story.
        cut: the sentence that was cut, as completed, or ``None``; how much of it stood in the beginning.
        rest: the sentences after it.
        lengths: words of the cut sentence's completion and of the sentences after it.
        closed: whether the story was ended.
        start: what the beginning had said.
    """

    words: tuple[str, ...]
    cut: Sentence | None
    given: int
    rest: tuple[Sentence | None, ...]
    lengths: tuple[int, ...]
    closed: bool
    start: State


@lru_cache(maxsize=1 << 12)
def _behind(grammar: Grammar, beginning: tuple[str, ...]) -> State:
    """What a true beginning has said: every model continues the same ones."""
    state = grammar.begin()
    for step in grammar.read(list(beginning)):
        state = step.state
    return state


def read_ending(grammar: Grammar, story: Sequence[str], place: int) -> Ending:
    """A story whose first ``place`` tokens are a true beginning."""
    start = _behind(grammar, tuple(story[:place]))
    closed = len(story) > place and story[-1] == END
    whole = sentences(story[:-1] if closed else story)
    before = 0
    while before + len(whole[0]) <= place and len(whole) > 1:
        before += len(whole.pop(0))
    cut, *rest = whole
    given = place - before
    return Ending(
        words=tuple(story[place : len(story) - closed]),
        cut=parse(grammar, tuple(cut)) if len(cut) > given else None,
        given=given,
        rest=tuple(parse(grammar, tuple(s)) for s in rest),
        lengths=(max(0, len(cut) - given), *map(len, rest)),
        closed=closed,
        start=start,
    )


def grammar_grade(e: Ending) -> float:
    """Share of the ending's words in sentences that parse, times 10."""
    good = sum(n for n, s in zip(e.lengths, (e.cut, *e.rest), strict=True) if s is not None)
    return 10 * good / len(e.words) if e.words else 0.0


def consistency_grade(grammar: Grammar, e: Ending) -> float:
    """Half for the completed sentence, half for mentions that agree with what the beginning said."""
    agree = total = 0
    for first, sentence in ((e.given, e.cut), *((0, s) for s in e.rest)):
        for place, item, word in sentence.slots if sentence is not None else ():
            if place < first or item[0] != "@":
                continue
            register, forms = grammar.forms.get(item[1:], (item[1:], None))
            if register in e.start.registers:
                said = e.start.registers[register]
                total += 1
                agree += word == (said if forms is None else forms[said])
    return 5 * (e.cut is not None) + 5 * agree / max(1, total)


def plot_grade(grammar: Grammar, e: Ending) -> float:
    """Half for steps that the plot allows, half for a closed end; the sentence that was cut and the beginning do not count."""
    trouble, legal = "", 0
    for before, after in zip((None, *e.rest), (*e.rest, None), strict=True):
        if before is not None:
            trouble = before.trouble or trouble
        if before is not None and after is not None:
            fits = not (trouble and after.trouble) or trouble == after.trouble
            legal += after.kind in grammar.graph[before.kind] and fits
        elif before is not None and after is None and before is e.rest[-1]:
            legal += e.closed and END in grammar.graph[before.kind]
    results = [s.trouble for s in e.rest if s is not None and s.kind == "result"]
    last = e.rest[-1] if e.rest else None
    closed = e.closed and last is not None and last.kind == "moral" and last.trouble in results
    return 5 * legal / max(1, len(e.rest)) + 5 * closed


def repeated(words: Sequence[str], n: int = 4) -> float:
    """Share of n-grams that stood in the same text before."""
    grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def choices(e: Ending) -> list[tuple[str, str]]:
    """What the ending chose: the word of every first mention, the template of every sentence."""
    found = []
    for first, sentence in ((e.given, e.cut), *((0, s) for s in e.rest)):
        if sentence is not None:
            found += [
                (item, word) for place, item, word in sentence.slots if item[0] == "+" and place >= first
            ]
            found += [(f"{sentence.kind}/{sentence.trouble}", sentence.template)] if not first else []
    return found


def diversity(endings: Sequence[Ending]) -> np.ndarray:
    """``(n,)``: how unlike the others' an ending's choices are, times the share of its 4-grams that are new; 0 without a choice."""
    own = [choices(e) for e in endings]
    every = Counter(choice for part in own for choice in part)
    kinds = Counter(kind for part in own for kind, _ in part)
    found = []
    for e, part in zip(endings, own, strict=True):
        mine, my_kinds = Counter(part), Counter(kind for kind, _ in part)
        unlike = []
        for choice in part:
            others = kinds[choice[0]] - my_kinds[choice[0]]
            unlike.append(1 - (every[choice] - mine[choice]) / others if others else 1.0)
        found.append(float(np.mean(unlike)) * (1 - repeated(e.words)) if unlike else 0.0)
    return np.array(found)


def grades(
    grammar: Grammar, stories: Sequence[Sequence[str]], places: Sequence[int], scale: float
) -> dict[str, np.ndarray]:
    """Grades ``(n,)`` of stories continued from ``places`` on, and ``overall``, their mean; ``repeated`` is the share of repeated 4-grams.

    Args:
        scale: mean :func:`diversity` of the true endings.
    """
    endings = [read_ending(grammar, story, place) for story, place in zip(stories, places, strict=True)]
    found = {
        "grammar": np.array([grammar_grade(e) for e in endings]),
        "consistency": np.array([consistency_grade(grammar, e) for e in endings]),
        "plot": np.array([plot_grade(grammar, e) for e in endings]),
        "creativity": 10 * diversity(endings) / scale,
    }
    found["overall"] = np.mean([found[name] for name in GRADES], axis=0)
    return found | {"repeated": np.array([repeated(e.words) for e in endings])}
