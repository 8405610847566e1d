"""One archive of a clean tag: ``make release``.

``dist/iclbook-VERSION.tar.gz`` is the tagged tree with what was made from it: the pages in ``_build/html``, the executed notebooks, the wheel, and ``SHA256SUMS`` of
every file. Equal trees give equal bytes: names are sorted, and times are those of the commit (or ``SOURCE_DATE_EPOCH``).
"""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from iclbook.book.pages import HTML, is_sealed
from iclbook.errors import UserError, one_line, say
from iclbook.files import write_whole

ROOT = Path(__file__).resolve().parents[1]
#: What is made from the tree and goes into the archive.
MADE = (HTML, Path("executed") / "paper")
SUMS = "SHA256SUMS"
#: Content and rights by name.
Files = dict[str, tuple[bytes, int]]


def git(root: Path, *words: str) -> str:
    """What git says; the empty string where it refuses."""
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def release_of(root: Path) -> tuple[str, int]:
    """The version, and the time of the commit (s). A tree that is not clean or not tagged by its version, or a change log without it, is a UserError."""
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if changed := git(root, "status", "--porcelain"):
        raise UserError(
            f"the tree is not clean ({changed.splitlines()[0].strip()})", "Commit, or remove, what differs."
        )
    if f"v{version}" not in git(root, "tag", "--points-at", "HEAD").split():
        raise UserError(f"this commit does not bear the tag v{version}", f"Tag it: git tag -a v{version} -m {version}")
    if f"\n## {version} " not in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise UserError(f"CHANGELOG.md has no section on {version}", "Write it, commit, and tag that commit.")
    return version, int(os.environ.get("SOURCE_DATE_EPOCH") or git(root, "log", "-1", "--format=%ct"))


def wheel(root: Path, when: int) -> tuple[str, bytes]:
    """Name and content of the wheel, built from what git has of the tree, so that no old build leaks into it."""
    with tempfile.TemporaryDirectory() as place:
        source, out = Path(place, "source"), Path(place, "out")
        tar = subprocess.run(["git", "-C", str(root), "archive", "HEAD"], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            # Python 3.11.3 and before have no filters
            archive.extractall(source, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        call = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
        call += ["--no-build-isolation", "--wheel-dir", str(out), str(source)]
        # rights of files that are made on the way go into the wheel
        subprocess.run(call, env=os.environ | {"SOURCE_DATE_EPOCH": str(when)}, umask=0o022, check=True)
        (path,) = out.glob("*.whl")
        return path.name, path.read_bytes()


def stamped(name: str, content: bytes, version: str, when: int) -> bytes:
    """What says how to cite the release, with its version and day, which stand nowhere in the tree."""
    day = f"{datetime.fromtimestamp(when, UTC):%Y-%m-%d}"
    if name == "CITATION.cff":
        return content.rstrip() + f"\nversion: {version}\ndate-released: {day}\n".encode()
    if name == ".zenodo.json":
        return (
            json.dumps(json.loads(content) | {"version": version, "publication_date": day}, indent=2).encode() + b"\n"
        )
    return content


def contents(root: Path, version: str, when: int) -> Files:
    """All files of the archive by name, ``SHA256SUMS`` among them."""
    tracked = [Path(name) for name in git(root, "ls-files", "-z").split("\0") if name]
    made = [path.relative_to(root) for part in MADE for path in (root / part).rglob("*") if path.is_file()]
    files: Files = {}
    for path in (*tracked, *made):
        name, runs = path.as_posix(), os.access(root / path, os.X_OK)
        files[name] = stamped(name, (root / path).read_bytes(), version, when), 0o755 if runs else 0o644
    name, content = wheel(root, when)
    files[name] = content, 0o644
    files[SUMS] = sums({name: content for name, (content, _) in files.items()}), 0o644
    return files


def sums(files: Mapping[str, bytes]) -> bytes:
    """Lines that ``sha256sum --check`` reads."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode()


def packed(files: Files, folder: str, when: int) -> bytes:
    """A tar.gz of files in a folder: the same files give the same bytes."""
    plain, zipped = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            content, rights = files[name]
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), rights, when
            archive.addfile(entry, io.BytesIO(content))
    with gzip.GzipFile(filename="", fileobj=zipped, mode="wb", mtime=0) as file:
        file.write(plain.getvalue())
    return zipped.getvalue()


def release(root: Path) -> list[Path]:
    """Write the archive, the wheel, the lock and their checksums into ``dist/``, and return their paths. Pages that are not those of this tree are a UserError."""
    version, when = release_of(root)
    if not is_sealed(root, "paper"):
        raise UserError("the pages are not those of this tree", "Build them first: make book")
    files = contents(root, version, when)
    folder = f"iclbook-{version}"
    out = {name: files[name][0] for name in files if re.fullmatch(r"lock\.txt|[^/]*\.whl", name)}
    out |= {f"{folder}.tar.gz": packed(files, folder, when)}
    paths = [root / "dist" / name for name in (*sorted(out), SUMS)]
    for path, content in zip(paths, (*(out[name] for name in sorted(out)), sums(out)), strict=True):
        write_whole(path, content)
    return paths


def main() -> int:
    try:
        for path in release(ROOT):
            say(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB")
    except UserError as mistake:
        print(f"error: {one_line(mistake)}", file=sys.stderr)
        return 2
    say(
        "\nUpload all of them to the release of this tag (the workflow `release` does), and the archive to Zenodo, which gives the DOI:"
    )
    say(
        ".zenodo.json fills its form. The wheel alone is what a package index takes. Then set `repository: url` in _config.yml, if it is empty."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
