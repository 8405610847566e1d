"""The same statements in Coq: every theorem is there, it compiles, it rests on no axiom of its own, and a false one does not compile."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from iclbook.project import find_root
from iclbook.theory import nagy2026 as theory

FOLDER = find_root() / "proofs"
SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.v")}
TEXT = "\n".join(SOURCES.values())
NAMES = set(re.findall(r"^(?:Theorem|Lemma) (\w+)", TEXT, re.M))
needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="there is no coqc (Debian: apt-get install coq)"
)


def coqc(folder: Path, name: str) -> subprocess.CompletedProcess:
    command = ["coqc", "-q", "-Q", ".", "Nagy2026", f"{name}.v"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)


def test_all_thirty_and_every_flagged_sentence_have_a_theorem():
    assert set(theory.THIRTY) <= NAMES
    for stem in (
        "A5_strict",
        "A7_equivalence",
        "line",
        "B3_strict",
        "B4_strict",
        "B6_sentence",
        "B6_own_optimum",
    ):
        assert {f"{stem}_false", f"{stem}_repaired"} <= NAMES
    for stem in ("B7_tuning", "D2_balanced", "V3_exists", "V3_attainable", "M3_residual"):
        assert {f"{stem}_false", f"{stem}_repaired"} <= NAMES
    for name in ("D3_spread_false", "D2_any_sign_false", "D2_optimal", "V2_window_false", "fig1b_never"):
        assert name in NAMES
    assert {"MN1_homogeneous_false", "MN1_triangle_false", "optimum_false", "gradient_false"} <= NAMES


def test_nothing_is_assumed_in_the_sources():
    assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Hypothesis|Variable)\b", TEXT)


def test_makefile_lists_every_file():
    listed = re.search(r"^FILES := (.*)$", (FOLDER / "Makefile").read_text(encoding="utf-8"), re.M)
    assert set(listed[1].split()) == set(SOURCES)


@needs_coq
def test_proofs_compile_and_rest_on_the_reals_only(tmp_path):
    build = ["make", "-s", "-C", str(FOLDER), "compile", f"BUILD={tmp_path}"]
    done = subprocess.run(build, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    chosen = {name: re.findall(r"^Theorem (\w+)", text, re.M) for name, text in SOURCES.items()}
    lines = [f"Require Import Nagy2026.{name}." for name in chosen]
    for name, theorems in chosen.items():
        together = ", ".join(f"@{name}.{theorem}" for theorem in theorems)
        lines += [f"Definition all_{name} := ({together}).", f"Print Assumptions all_{name}."]
    (tmp_path / "All.v").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = coqc(tmp_path, "All")
    assert done.returncode == 0, done.stderr
    used = set(re.findall(r"^(?:\w+\.)*(\w+)$|^(?:\w+\.)*(\w+) :", done.stdout, re.M))
    axioms = {a or b for a, b in used} - {""}
    assert axioms <= {"sig_forall_dec", "sig_not_dec", "functional_extensionality_dep"}
    assert "Closed under the global context" in done.stdout  # the rational ones


@needs_coq
@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("Descent", "= - (eta * grad a b w)", "= eta * grad a b w"),
        ("Descent", "eta * a <= 2 -> 0 <= eta", "eta * a <= 3 -> 0 <= eta"),
        ("Softmax", "B5 : forall a a_p, 0 <= a -> ", "B5 : forall a a_p, a = a -> "),
        ("Rationals", "u + v == 2", "u + v == 3"),
    ],
)
def test_a_mutated_theorem_does_not_compile(tmp_path, file, right, wrong):
    assert SOURCES[file].count(right) >= 1
    (tmp_path / f"{file}.v").write_text(SOURCES[file].replace(right, wrong, 1), encoding="utf-8")
    done = coqc(tmp_path, file)
    assert done.returncode != 0
    assert "Error" in done.stderr
