"""The judge of table 3: the prompts of figures 12 and 13, the grades in a reply, and a call to an endpoint that the reader names.

The words are those of the figures; lines are broken where the figure breaks its lists. Repaired, because text was lost or a tag would not close: of "the
plot of the student's writing make sense" the heading ``Plot:`` and ``Does``; the first rubric's ``Grammar:``; the end of its assessment, printed twice; the
closing tags ``grammar``, ``grammar_GRADE`` (capitals), ``CUNSISTENCY_`` (printed beside the right one) and ``/PLOT:``; the last ``[Grade out of 10]``.
``**STORY BEGIN**`` is written with the underscore of appendix J. No page, chapter or test of the book calls an endpoint.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ....errors import UserError, one_line

#: Figure 13.
SYSTEM = (
    "You are a writing evaluator designed to assess student story completions. You will be provided children's stories written for a 3-4 year old "
    "audience. Your role is to provide constructive, fair, and detailed evaluations based on specific rubric criteria."
)
#: Figure 12.
USER = """\
In the following exercise, the student is given a pre-written beginning of a story. The student needs to complete this story. The exercise tests the \
student's language abilities and creativity.

Here is the pre-written beginning:
<PROVIDED BEGINNING>
**STORY_BEGIN**
</PROVIDED BEGINNING>

And here is the students response
<STUDENT RESPONSE>
**STORY_END**
</STUDENT RESPONSE>

First, provide a concise qualitative assessment about the student's writing. Then, give the writing a grade out of 10. These assessments should be done \
for each of the following rubric items:

Grammar:
* Is the writing grammatically correct?
* Evaluate syntax, punctuation, and sentence structure.
Consistency:
* Is the student's writing consistent with the provided beginning of the story?
* How well does the student complete the final sentence of the prescribed beginning?
Plot:
* Does the plot of the student's writing make sense (regardless of the provided beginning)?
Creativity:
* How creative is the student's writing?

Format your response as follows
<GRAMMAR>
[Qualitative assessment of grammar]
</GRAMMAR>
<GRAMMAR_GRADE>
[Grade out of 10]
</GRAMMAR_GRADE>
<CONSISTENCY>
[Qualitative assessment of consistency]
</CONSISTENCY>
<CONSISTENCY_GRADE>
[Grade out of 10]
</CONSISTENCY_GRADE>
<PLOT>
[Qualitative assessment of plot]
</PLOT>
<PLOT_GRADE>
[Grade out of 10]
</PLOT_GRADE>
<CREATIVITY>
[Qualitative assessment of creativity]
</CREATIVITY>
<CREATIVITY_GRADE>
[Grade out of 10]
</CREATIVITY_GRADE>

Provide your assessment below
"""
#: Replies are shorter than this, in bytes.
LONGEST = 1 << 20
_AGAIN = "Grade it again with the same command, or name another model."


class Grades(NamedTuple):
    """Out of 10."""

    grammar: float
    consistency: float
    plot: float
    creativity: float

    @property
    def overall(self) -> float:
        """The mean of the four, as in table 3."""
        return sum(self) / len(self)


def mean(grades: Sequence[Grades]) -> Grades:
    """A row of table 3."""
    return Grades(*(sum(column) / len(column) for column in zip(*grades, strict=True)))


def prompt(beginning: str, ending: str) -> str:
    """Figure 12 about a story. Placeholders within the story stay as they are."""
    parts = {"BEGIN": beginning, "END": ending}
    return re.sub(r"\*\*STORY_(BEGIN|END)\*\*", lambda found: parts[found[1]], USER)


def parsed(reply: str) -> Grades:
    """The grades in a reply: a number between each pair of tags, perhaps with "/10", "out of 10" or in brackets.

    Raises:
        UserError: a grade is missing, given twice and differently, or not between 0 and 10.
    """
    return Grades(*(_grade(reply, name.upper()) for name in Grades._fields))


def _grade(reply: str, name: str) -> float:
    number = r"\s*\[?\s*(\d{1,2}(?:\.\d+)?)\s*(?:(?:/|out of)\s*10(?:\.0*)?)?\s*\]?\s*"
    found = re.findall(rf"<{name}_GRADE>{number}</{name}_GRADE>", reply, re.IGNORECASE)
    grades = {float(text) for text in found}
    if len(grades) != 1 or not 0 <= (grade := grades.pop()) <= 10:
        raise UserError(
            f"the judge's reply has no one grade from 0 to 10 for {name.lower()}: {one_line(reply)[:80]!r}",
            _AGAIN,
        )
    return grade


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection, which would carry the key to another address."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def ask(
    url: str, model: str, beginning: str, ending: str, key: str | None = None, timeout: float = 120.0
) -> str:
    """The judge's reply about an ending.

    Args:
        url: of an OpenAI-compatible service, such as ``http://localhost:8000/v1``.
        model: its name there; the paper asks gpt-4o.
        key: sent as a bearer token.
        timeout: seconds without an answer.

    Raises:
        UserError: an address that is none, no connection, an error of the service, or a reply of another form.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UserError(f"{url!r} is no address of a judge", "Give one such as http://localhost:8000/v1.")
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt(beginning, ending)}]
    body = json.dumps({"model": model, "messages": messages}).encode()
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(f"{url.rstrip('/')}/chat/completions", body, headers)
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=timeout) as answer:
            content = json.loads(answer.read(LONGEST))["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        with error:
            said = one_line(error.read(300).decode(errors="replace"))
        raise UserError(
            f"the judge at {url} answers {error.code} ({said})", "Check its address, model and key."
        ) from error
    except (OSError, HTTPException) as error:
        raise UserError(f"no judge at {url} ({error})", "Check the address and the network.") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError(f"what {url} answers is no chat completion", "Check the address.") from error
    if not isinstance(content, str):
        raise UserError(f"what {url} answers has no text", _AGAIN)
    return content
