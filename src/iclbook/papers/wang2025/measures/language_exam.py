"""The judge is judged first: endings whose order is known before any model is trained."""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache, reduce

import numpy as np
from torch import Tensor

from ....tasks.stories import Stories
from ....tasks.story_grammar import END
from ..runs.language import CONTINUED, beginnings
from .language_judge import diversity, grades, read_ending, sentences

#: Best first; the last two may both have nothing right.
ORDER = ("true", "foreign", "shuffled sentences", "bigram", "shuffled words")
Story = list[str]


@lru_cache(maxsize=4)
def true_stories(task: Stories, n: int) -> tuple[list[Story], list[int]]:
    """Whole stories, and where the beginnings that models continue stop."""
    whole, starts = task.held_out(n, CONTINUED), beginnings(task, n)
    return [task.text(column) for column in whole.T], [int((c >= 0).sum()) for c in starts.T]


@lru_cache(maxsize=4)
def true_diversity(task: Stories, n: int) -> float:
    """Mean diversity of the true endings, which scales creativity."""
    pairs = zip(*true_stories(task, n), strict=True)
    return float(diversity([read_ending(task.grammar, *pair) for pair in pairs]).mean())


@lru_cache(maxsize=4)
def others(task: Stories) -> Tensor:
    """400 other stories ``(S + 1, 400)``, of which tokens are counted."""
    return task.held_out(400, seed=7)


def _parted(story: Story, place: int) -> tuple[Story, list[Story]]:
    """A story up to the end of the sentence that was cut, and the sentences after it, without the story's end."""
    whole, head = sentences(story[:-1]), []
    while len(head) < place:
        head += whole.pop(0)
    return head, whole


def imitations(task: Stories, n: int, seed: int = 0) -> dict[str, list[Story]]:
    """Stories with true beginnings and endings of each kind of :data:`ORDER`, and one that repeats its moral to the end."""
    rng = np.random.default_rng(seed)
    stories, places = true_stories(task, n)
    parts = [_parted(story, place) for story, place in zip(stories, places, strict=True)]
    follows, longest = _bigrams(task), task.context + 1
    found = {name: [] for name in (*ORDER, "repeated moral")}
    for i, (story, place, (head, rest)) in enumerate(zip(stories, places, parts, strict=True)):
        other = parts[(i + 1) % n][1]
        found["true"].append(story)
        found["foreign"].append(head + reduce(operator.iadd, other, []) + [END])
        order = rng.permutation(len(rest))
        if (order == np.arange(len(rest))).all():
            order = order[::-1]
        found["shuffled sentences"].append(head + reduce(operator.iadd, (rest[j] for j in order), []) + [END])
        found["bigram"].append(_walk(follows, story[:place], longest, rng))
        words = story[place:-1]
        found["shuffled words"].append(
            story[:place] + [words[j] for j in rng.permutation(len(words))] + [END]
        )
        found["repeated moral"].append((head + rest[-1] * ((longest - 1) // len(rest[-1])))[:longest])
    return found


def _bigrams(task: Stories) -> dict[str, Story]:
    """What followed each token in other stories."""
    follows: dict[str, Story] = defaultdict(list)
    for column in others(task).T:
        story = task.text(column)
        for a, b in itertools.pairwise(story):
            follows[a].append(b)
    return follows


def _walk(follows: dict[str, Story], start: Story, longest: int, rng: np.random.Generator) -> Story:
    story = list(start)
    while len(story) < longest and story[-1] != END:
        options = follows.get(story[-1]) or [END]
        story.append(options[rng.integers(len(options))])
    return story


def marks(task: Stories, stories: Sequence[Story], n: int) -> dict[str, np.ndarray]:
    """The judge's grades of stories that continue the ``n`` beginnings."""
    return grades(task.grammar, stories, true_stories(task, n)[1], true_diversity(task, n))


def examined(task: Stories, n: int) -> dict[str, dict[str, float]]:
    """Mean grades of every kind of imitation.

    Raises:
        ValueError: a worse kind is not graded worse: the judge is no judge.
    """
    found = {
        name: {grade: float(values.mean()) for grade, values in marks(task, stories, n).items()}
        for name, stories in imitations(task, n).items()
    }
    overall = [found[name]["overall"] for name in ORDER]
    first, second, third, fourth, last = overall
    if not first > second > third > fourth >= last:  # words by chance: both may have nothing right
        raise ValueError(f"the judge's order is {dict(zip(ORDER, overall, strict=True))}")
    return found
