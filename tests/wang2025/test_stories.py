"""The story grammar: exact distributions, likelihood as a product of choices, a unique derivation, counted random words."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats
from wang2025.kit import STORY

from iclbook import random
from iclbook.errors import UserError
from iclbook.tasks.stories import HELD_OUT, NOTHING, Stories, grammar, longest
from iclbook.tasks.story_grammar import END, Grammar, Kind

SMALL = Stories(words=4, short=True)
FULL = Stories()
TINY = Grammar(
    "open",
    {"open": {"middle": 1, "moral": 3}, "middle": {"moral": 1}, "moral": {END: 1}},
    {
        "open": ("an+colour +colour +hero .", "trouble=wet: +hero fell in ."),
        "middle": ("@he sighed .", "@hero sat .", "wet: +friend swam ."),
        "moral": ("wet: keep dry .", "be good ."),
    },
    {"name": ("al", "bo", "di"), "colour": ("ash", "red", "blue")},
    {"hero": "name", "friend": "name", "colour": "colour"},
    {"he": ("hero", {"al": "he", "bo": "he", "di": "she"})},
)


def every_story(of, state=None, said=(), chance=Fraction(1)):
    """All stories of a grammar with their probabilities, by walking through every choice."""
    for token, step in of.steps(of.begin() if state is None else state):
        if step.state is None:
            yield (*said, token), chance * step.probability
        else:
            yield from every_story(of, step.state, (*said, token), chance * step.probability)


def test_a_tiny_grammar_sums_to_one_and_has_the_entropy_of_its_choices():
    found = list(every_story(TINY))
    assert len({story for story, _ in found}) == len(found), "no story is derived twice"
    assert sum(p for _, p in found) == 1
    entropy = -sum(float(p) * math.log(p) for _, p in found)
    # chain rule: the entropy of every choice, weighted by how often it is met
    met = Counter()
    for story, p in found:
        for place in range(len(story)):
            met[story[:place]] += p
    own = 0.0
    for prefix, p in met.items():
        following = TINY.next_distribution(list(prefix)).values()
        assert sum(following) == 1
        own += float(p) * -sum(float(q) * math.log(q) for q in following)
    assert own == pytest.approx(entropy, abs=1e-12)


def test_the_tiny_grammar_says_what_it_should():
    first = TINY.next_distribution([])
    assert first == {t: Fraction(n, 18) for t, n in {"a": 6, "an": 3, "al": 3, "bo": 3, "di": 3}.items()}
    assert TINY.next_distribution(["an"]) == {"ash": 1}
    assert TINY.next_distribution(["a"]) == {"red": Fraction(1, 2), "blue": Fraction(1, 2)}
    after = TINY.next_distribution(
        ["bo", "fell", "in", "."]
    )  # the friend is not the hero, and the moral may be the wet one
    assert after == {
        "he": Fraction(1, 12),
        "bo": Fraction(1, 12),
        "al": Fraction(1, 24),
        "di": Fraction(1, 24),
        "keep": Fraction(3, 8),
        "be": Fraction(3, 8),
    }
    assert TINY.next_distribution(["an", "ash", "bo", "."]) == {
        "he": Fraction(1, 8),
        "bo": Fraction(1, 8),
        "be": Fraction(3, 4),
    }
    assert TINY.next_distribution(["di", "fell", "in", ".", "be", "good", ".", END]) == {}


def test_drawn_stories_have_the_grammars_frequencies():
    exact = dict(every_story(TINY))
    n = 20_000
    words = random.words(random.keys([3]), torch.arange(n), 5, (24,))[0].tolist()
    drawn = Counter(tuple(TINY.draw(iter(own))) for own in words)
    assert set(drawn) <= set(exact)
    # stories expected fewer than five times are one class
    often = [s for s, p in exact.items() if p * n >= 5]
    seen, expected = [drawn[s] for s in often], [float(exact[s]) * n for s in often]
    if sum(expected) < n - 1e-6:
        seen.append(n - sum(seen))
        expected.append(n - sum(expected))
    assert stats.chisquare(seen, expected).pvalue > 1e-4


@pytest.mark.parametrize("task", [SMALL, FULL])
def test_every_prefix_of_a_story_sums_to_one_and_has_one_derivation(task):
    stories = task.held_out(12)
    logs, kinds = task.scored(stories)
    for column in range(stories.shape[1]):
        text, state, total = task.text(stories[:, column]), task.grammar.begin(), 0.0
        for token in text:
            task.grammar.check(state)
            choices = dict(task.grammar.steps(state))
            assert sum(step.probability for step in choices.values()) == 1
            total += math.log(choices[token].probability)
            state = choices[token].state
        assert state is None, "the story ends where its derivation does"
        assert logs[:, column].sum() == pytest.approx(total, abs=1e-10)
        assert (kinds[len(text) :, column] == NOTHING).all()
    # what the sentence fixes has no entropy; every kind occurs
    assert (logs[kinds == Kind.SYNTAX] == 0).all()
    assert set(np.unique(kinds)) == {NOTHING, *Kind}


def test_next_distribution_agrees_with_frequencies():
    """The first token after the want: counted over 20,000 stories of the small grammar."""
    words = random.words(random.keys([4]), torch.arange(20_000), 5, (80,))[0].tolist()
    texts = [SMALL.grammar.draw(iter(own)) for own in words]
    prefix = texts[0][: texts[0].index(".") + 2]  # the first sentence and a word
    assert len(texts) == 20_000
    exact = SMALL.grammar.next_distribution([])
    seen = Counter(text[0] for text in texts)
    assert set(seen) == set(exact)
    assert (
        stats.chisquare([seen[t] for t in exact], [float(p) * 20_000 for p in exact.values()]).pvalue > 1e-4
    )
    assert sum(SMALL.grammar.next_distribution(prefix).values()) == 1


def test_kinds_of_tokens():
    task = Stories()
    story = STORY[:19]
    steps = list(task.grammar.read(story))
    kinds = dict(zip(range(len(story)), [s.kind.name for s in steps], strict=True))
    assert [kinds[i] for i in (0, 1, 5, 7, 8, 9)] == ["PLOT", "SYNTAX", "FREE", "FREE", "FREE", "SYNTAX"]
    assert kinds[10] == "BIND", "he is tom, whatever else could begin the sentence"
    assert kinds[11] == "PLOT", "he met, or he loved"
    assert [kinds[i] for i in (12, 14, 17)] == ["FREE", "FREE", "FREE"]
    with pytest.raises(UserError, match="'forest' cannot be token 2"):
        list(task.grammar.read(["once", "forest"]))


def test_stories_of_a_step_do_not_depend_on_what_else_is_drawn():
    keys, f32 = random.keys([5, 6]), torch.float32
    both = SMALL.draw(keys, torch.tensor([7, 8]), 4, f32)[0]
    assert both.shape == (2, 2, SMALL.context + 1, 4)
    alone = SMALL.draw(keys[1:], torch.tensor([8]), 4, f32)[0]
    assert torch.equal(both[1:, 1:], alone)
    assert not torch.equal(both[0, 0], both[0, 1])
    assert not torch.equal(both[0, 0], both[1, 0])


def test_a_batch_asks_for_the_next_token_and_for_nothing_behind_the_end():
    tokens = SMALL.draw(random.keys([1]), torch.tensor([1]), 5, torch.float32)[0][:, 0]
    context, query, target = SMALL.batch((tokens,), ())
    assert context.shape == target.shape == (1, SMALL.context, 5)
    assert query.numel() == 0
    for b in range(5):
        n = len(SMALL.text(tokens[0, :, b]))
        assert torch.equal(context[0, 1 : n - 1, b], target[0, : n - 2, b])
        assert target[0, n - 2, b] == 0, "the end is predicted"
        assert (target[0, n - 1 :, b] == NOTHING).all()


def test_held_out_stories_are_others_and_the_first_of_more():
    few, more = SMALL.held_out(3), SMALL.held_out(5)
    assert torch.equal(few, more[:, :3])
    assert HELD_OUT not in (random.INIT, random.DATA, random.CHOICE)
    trained = {
        tuple(row)
        for row in FULL.draw(random.keys(range(3)), torch.arange(1, 20), 4, torch.float32)[0]
        .movedim(2, -1)
        .flatten(0, 2)
        .tolist()
    }
    assert not trained & {tuple(row) for row in FULL.held_out(20).T.tolist()}


@pytest.mark.parametrize(("task", "low", "high"), [(SMALL, 150, 250), (FULL, 400, 700)])
def test_sizes(task, low, high):
    assert low <= task.vocabulary <= high
    assert task.context == longest(task.grammar) - 1
    assert all(len(task.text(s)) <= task.context + 1 for s in task.held_out(30).T)


def test_every_tree_of_the_full_grammar_has_one_derivation_for_every_hero_and_friend():
    """Not only at the places that drawn stories meet: all kinds and troubles, both orders of he and she."""
    g = grammar(4)
    names = ("tom", "anna")
    for hero, friend in (names, names[::-1], ("tom", "ben")):
        registers = {r: g.classes[c][i % 4] for i, (r, c) in enumerate(g.registers.items())}
        registers |= {"hero": hero, "friend": friend, "fkind": "bear", "kind": "rabbit"}
        troubles = {t.split(":")[0] for t in g.templates["moral"]}
        assert len(troubles) == 8
        for kind in g.graph:
            for trouble in troubles if kind not in ("open", "habit", "scene", "want", "detail") else [""]:
                todo = [g._tree(g.graph[kind], trouble)]
                while todo:
                    node = todo.pop()
                    if node.children:
                        g.check(type(g.begin())(node, registers, trouble))
                        todo += node.children.values()


def test_a_grammar_that_cannot_be_read_is_refused():
    bad = Grammar("a", {"a": {END: 1}}, {"a": ("+x .", "one more .")}, {"c": ("one",)}, {"x": "c"})
    with pytest.raises(UserError, match="belongs to two choices"):
        bad.check(bad.begin())
    bad = Grammar("a", {"a": {END: 1}}, {"a": ("one .", "one . two .")}, {}, {})
    with pytest.raises(UserError, match="begins with"):
        bad.begin()
    with pytest.raises(UserError, match="lacks"):
        Grammar("a", {"a": {"b": 1}}, {"a": ("one .",)}, {}, {})
    with pytest.raises(UserError, match="words=2"):
        Stories(words=2)
    round_and_round = Grammar("a", {"a": {"a": 1, END: 1}}, {"a": ("one .",)}, {}, {})
    with pytest.raises(UserError, match="without cycles"):
        longest(round_and_round)
