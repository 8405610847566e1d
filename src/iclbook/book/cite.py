"""How a chapter is cited, as BibTeX: its paper, from the bibliography, and the chapter, from ``CITATION.cff``; and the signs by which a claim is linked to."""

import html
import re
import tomllib
from pathlib import Path

import yaml
from pybtex.database import Entry

#: A claim in a page, with its place.
CLAIM = re.compile(r'(<details class="iclbook-verdict" id="([^"]+)">.*?)</details>', re.DOTALL)


def chapter_entry(title: str, name: str, root: Path) -> str:
    """BibTeX of a chapter; the empty string where the book says nothing of itself."""
    path = root / "CITATION.cff"
    if not path.is_file():
        return ""
    about = yaml.safe_load(path.read_text(encoding="utf-8"))
    people = " and ".join(_person(each) for each in about["authors"])
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    fields = {"author": people, "title": f"{title}. In: {about['title']}", "note": f"Version {version}"}
    fields["year"] = str(about.get("date-released", ""))[:4]
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    fields["url"] = about.get("repository-code") or settings.get("repository", {}).get("url", "")
    return _bibtex("misc", f"iclbook-{name}", fields)


def _person(person: dict[str, str]) -> str:
    return f"{{{person['name']}}}" if "name" in person else f"{person['family-names']}, {person['given-names']}"


def paper_entry(key: str, entry: Entry) -> str:
    """BibTeX of a paper."""
    people = " and ".join(str(person) for person in entry.persons.get("author", ()))
    return _bibtex(entry.type, key, {"author": people} | {k: v for k, v in entry.fields.items() if k != "code"})


def _bibtex(kind: str, key: str, fields: dict[str, str]) -> str:
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
    return f"@{kind}{{{key},\n{lines}\n}}"


def markdown(title: str, name: str, root: Path, papers: dict[str, Entry]) -> str:
    """What folds out at the end of a chapter: both entries, or what there is of them."""
    found = [("The paper:", paper_entry(key, entry)) for key, entry in papers.items()]
    if own := chapter_entry(title, name, root):
        found.append(("This chapter:", own))
    if not found:
        return ""
    parts = "".join(f"<p>{what}</p><pre>{html.escape(text)}</pre>" for what, text in found)
    return f'```{{raw}} html\n<details class="iclbook-cite" id="cite"><summary>Cite this chapter</summary>{parts}</details>\n```'


def linked(text: str, root: Path) -> str:
    """The HTML of a chapter's output, with a sign on every claim's line and a link in its fold."""
    sign = r'<a class="iclbook-permalink" href="#\2" aria-hidden="true" tabindex="-1">#</a>'  # for the mouse; the fold's link is for all
    also = ', <a href="#cite">cite it</a>' if (root / "CITATION.cff").is_file() else ""
    link = rf'<p class="iclbook-permalink"><a href="#\2">Link to this claim</a>{also}</p>'
    return CLAIM.sub(rf'<div class="iclbook-claim">\1{link}</details>{sign}</div>', text)
