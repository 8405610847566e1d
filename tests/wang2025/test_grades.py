"""The judge of table 3: its prompts, the grades in a reply, and what a local service answers."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from iclbook.errors import UserError
from iclbook.papers.wang2025.stories.grades import SYSTEM, USER, Grades, ask, mean, parsed, prompt

REPLY = """<GRAMMAR>
Good, 9 of 10 sentences.
</GRAMMAR>
<GRAMMAR_GRADE>
8
</GRAMMAR_GRADE>
<CONSISTENCY> fine </CONSISTENCY>
<CONSISTENCY_GRADE> 6/10 </CONSISTENCY_GRADE>
<PLOT> - </PLOT> <PLOT_GRADE>[7.5]</PLOT_GRADE>
<CREATIVITY></CREATIVITY>
<creativity_grade>2 out of 10</creativity_grade>
"""


def completion(content: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


class Service(HTTPServer):
    """Answers what it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.status, self.headers, self.asked = completion(REPLY), 200, {}, []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with Service() as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def test_every_tag_of_the_prompt_is_closed():
    opened = re.findall(r"<([A-Z_ ]+)>", USER)
    assert opened == re.findall(r"</([A-Z_ ]+)>", USER)
    assert [t for t in opened if t.endswith("_GRADE")] == [f"{n.upper()}_GRADE" for n in Grades._fields]
    assert USER.count("[Grade out of 10]") == 4


def test_a_story_is_put_in_as_it_is():
    said = prompt("once **STORY_END** \\1", "upon")
    assert "<PROVIDED BEGINNING>\nonce **STORY_END** \\1\n</PROVIDED BEGINNING>" in said
    assert "<STUDENT RESPONSE>\nupon\n</STUDENT RESPONSE>" in said


def test_grades_of_a_reply():
    assert parsed(REPLY) == Grades(8, 6, 7.5, 2)
    assert parsed(REPLY).overall == 23.5 / 4
    assert mean([Grades(8, 6, 7.5, 2), Grades(10, 8, 0.5, 3)]) == Grades(9, 7, 4, 2.5)


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("\n8\n", "\nvery good\n", "grammar"),
        ("\n8\n", "\n80\n", "grammar"),
        ("\n8\n", "\n-8\n", "grammar"),
        ("\n8\n", "\n11/10\n", "grammar"),
        ("6/10", "6/100", "consistency"),
        ("</PLOT_GRADE>", "", "plot"),
        ("<creativity_grade>", "<CREATIVITY_GRADE>3</CREATIVITY_GRADE><creativity_grade>", "creativity"),
    ],
)
def test_a_reply_without_a_grade_is_refused(old, new, name):
    with pytest.raises(UserError, match=f"for {name}: ") as refused:
        parsed(REPLY.replace(old, new))
    assert "\n" not in str(refused.value)


def test_a_service_is_asked_as_the_paper_asks(service):
    assert parsed(ask(service.url, "gpt-4o", "one", "two", key="secret", timeout=10)).plot == 7.5
    ((path, headers, body),) = service.asked
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer secret"
    assert body["model"] == "gpt-4o"
    assert [(m["role"], m["content"]) for m in body["messages"]] == [
        ("system", SYSTEM),
        ("user", prompt("one", "two")),
    ]
    ask(service.url + "/", "gpt-4o", "one", "two", timeout=10)
    assert service.asked[1][0] == path
    assert "Authorization" not in service.asked[1][1]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"<html>", "no chat completion"),
        (b"[]", "no chat completion"),
        (b'{"choices": []}', "no chat completion"),
        (completion(None), "has no text"),
    ],
)
def test_another_answer_is_one_line(service, answer, says):
    service.answer = answer
    with pytest.raises(UserError, match=says):
        ask(service.url, "m", "a", "b", timeout=10)


def test_errors_of_a_service_are_one_line_without_the_key(service):
    service.status, service.answer = 401, b'{"error":\n "no such key"}'
    with pytest.raises(UserError, match=r'answers 401 \(\{"error": "no such key"\}\)') as refused:
        ask(service.url, "m", "a", "b", key="secret", timeout=10)
    assert "secret" not in str(refused.value)


def test_no_redirection_is_followed(service):
    service.status, service.headers = 302, {"Location": service.url + "/elsewhere"}
    with pytest.raises(UserError, match="answers 302"):
        ask(service.url, "m", "a", "b", key="secret", timeout=10)
    assert len(service.asked) == 1


@pytest.mark.parametrize("url", ["file:///etc/passwd", "localhost:80", "http://", ""])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(UserError, match="is no address"):
        ask(url, "m", "a", "b")


def test_no_service_is_one_line(service):
    service.server_close()
    with pytest.raises(UserError, match="no judge at"):
        ask(service.url, "m", "a", "b", timeout=2)
