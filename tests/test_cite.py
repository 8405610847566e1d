"""How a chapter and a claim are cited, and the address under which a repository's pages stand."""

import re
from pathlib import Path

import pytest
from pybtex.database import parse_string

from iclbook.book import cite
from iclbook.book.addresses import pages_address
from iclbook.book.chapter_head import entries

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("repository", "address"),
    [
        ("https://github.com/Someone/book", "https://someone.github.io/book"),
        ("https://gitlab.com/someone/my.book.git", "https://someone.gitlab.io/my.book"),
        ("https://code.example.org/someone/book", ""),
        ("", ""),
    ],
)
def test_a_repositorys_address_gives_that_of_its_pages(repository: str, address: str) -> None:
    assert pages_address(repository) == address


def test_a_chapter_is_cited_by_bibtex_that_can_be_read() -> None:
    papers = {key: entry for key, entry in entries(ROOT).items() if key == "he2025"}
    text = cite.markdown("A & B", "linear_regression", ROOT, papers)
    blocks = [block.replace("&amp;", "&") for block in re.findall("<pre>(.*?)</pre>", text, re.DOTALL)]
    found = parse_string("\n".join(blocks), "bibtex").entries
    assert set(found) == {"he2025", "iclbook-linear_regression"}
    assert [str(p) for p in found["he2025"].persons["author"]] == [str(p) for p in papers["he2025"].persons["author"]]
    assert "code" not in found["he2025"].fields
    assert found["iclbook-linear_regression"].fields["title"].startswith("A & B. In: ")


def test_a_book_that_says_nothing_of_itself_is_not_cited(tmp_path: Path) -> None:
    assert cite.markdown("T", "one", tmp_path, {}) == ""
    assert "cite it" not in cite.linked(
        '<details class="iclbook-verdict" id="a"><summary>x</summary>y</details>', tmp_path
    )


def test_every_claim_has_a_sign_and_a_link() -> None:
    two = '<details class="iclbook-verdict" id="a"><summary>x</summary>y</details><details class="iclbook-verdict" id="b"><summary>u</summary>v</details>'
    text = cite.linked(two, ROOT)
    assert re.findall(r'href="#(\w+)"', text) == ["a", "cite", "a", "b", "cite", "b"]
    assert text.count("</details>") == 2
