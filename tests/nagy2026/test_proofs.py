"""The same statements in Coq: every theorem is there, it compiles, and it rests on no axiom of its own."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from iclbook.papers.nagy2026.theorems import STATEMENTS as FORMAL
from iclbook.project import find_root

THIRTY = tuple(s.id for s in FORMAL if s.role == "statement")
FOLDER = find_root() / "proofs"
SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.v")}
TEXT = "\n".join(SOURCES.values())
NAMES = set(re.findall(r"^(?:Theorem|Lemma) (\w+)", TEXT, re.M))
needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="there is no coqc (Debian: apt-get install coq)")


def coqc(folder: Path, name: str) -> subprocess.CompletedProcess:
    command = ["coqc", "-q", "-Q", ".", "Nagy2026", f"{name}.v"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_all_thirty_and_every_flagged_sentence_have_a_theorem():
    assert set(THIRTY) <= NAMES
    for stem in ("A5_strict", "A7_equivalence", "line", "B3_strict", "B4_strict", "B6_sentence", "B6_own_optimum"):
        assert {f"{stem}_false", f"{stem}_repaired"} <= NAMES
    for stem in ("B7_tuning", "D2_balanced", "V3_exists", "V3_attainable", "M3_residual"):
        assert {f"{stem}_false", f"{stem}_repaired"} <= NAMES
    for name in ("D3_spread_false", "D2_any_sign_false", "D2_optimal", "V2_window_false", "fig1b_never"):
        assert name in NAMES
    assert {"MN1_homogeneous_false", "MN1_triangle_false", "optimum_false", "gradient_false"} <= NAMES


#: What the paper states, in Coq, written beside the sources so that a theorem cannot quietly become weaker or say nothing.
STATEMENTS = {
    "A1": "forall eta a b w, 0 < eta -> eta * (b - a * w) = - (eta * grad a b w)",
    "A2": "forall a b w w_star, 0 < a -> a * w_star = b -> grad a b w = a * (w - w_star)",
    "A3": "forall eta a, 0 < eta -> eta * a <= 2 -> 0 <= eta * (2 - eta * a)",
    "A4": "forall g : R, 0 <= g^2",
    "A5": "forall L L_next etafac gsq, L - L_next = etafac * gsq -> 0 <= etafac -> 0 <= gsq -> L_next <= L",
    "A6": "forall eta a, 0 <= eta * a -> eta * a <= 2 -> (1 - eta * a)^2 <= 1",
    "A7": "forall e e_next rho2, e_next^2 = rho2 * e^2 -> rho2 <= 1 -> e_next^2 <= e^2",
    "B1": "forall p y1 y2, 0 <= p <= 1 -> y1 <= y2 -> y1 <= mix p y1 y2",
    "B2": "forall p y1 y2, 0 <= p <= 1 -> y1 <= y2 -> mix p y1 y2 <= y2",
    "B3": "forall u v, 0 < u -> u <= v -> v <= 1 -> (1 - v)^2 <= (1 - u)^2",
    "B4": "forall u v, 1 <= v -> v <= u -> u <= 2 -> (1 - v)^2 <= (1 - u)^2",
    "B5": "forall a a_p, 0 <= a -> a <= a_p -> a^2 <= a_p^2",
    "B6": "forall a a_p e, 0 <= a -> a <= a_p -> a^2 * e^2 <= a_p^2 * e^2",
    "B7": "forall v, v = 1 -> (1 - v)^2 = 0",
    "C1": "forall r, 0 <= r <= 1 -> r^2 <= r",
    "C2": "forall r, 0 < r < 1 -> r^2 < r",
    "C3": "forall e0 e2 r, e2^2 = r * e0^2 -> r <= 1 -> e2^2 <= e0^2",
    "C4": "forall e0 e2 e3, e3^2 <= e2^2 -> e2^2 <= e0^2 -> e3^2 <= e0^2",
    "D1": "forall L1 L2 L1' L2', L1' <= L1 -> L2' <= L2 -> L1' + L2' <= L1 + L2",
    "D2": "forall u v, u + v = 2 -> (1 - u)^2 = (1 - v)^2",
    "D3": "forall a1 a2, 0 <= a1 -> 0 <= a2 -> (a2 - a1)^2 <= (a2 + a1)^2",
    "V1": "forall v_o q_k a b w, (v_o * q_k) * (b - a * w) = - ((v_o * q_k) * (a * w - b))",
    "V2": "forall v_o q_k, 0 < v_o -> 0 < q_k -> 0 < v_o * q_k",
    "V3": "forall v_o q_k eta a_p, v_o * q_k = eta -> eta * a_p = 1 -> v_o * q_k * a_p = 1",
    "M1": "forall k1 g1 k2 g2, (- (k1 * g1))^2 + (- (k2 * g2))^2 = k1^2 * g1^2 + k2^2 * g2^2",
    "M2": "forall g1 g2 g1' g2', g1'^2 <= g1^2 -> g2'^2 <= g2^2 -> g1'^2 + g2'^2 <= g1^2 + g2^2",
    "M3": "forall kappa l1 l2, l1 < l2 -> kappa * l1 = 1 -> 0 < (1 - kappa * l2)^2",
    "MN1": "forall f d, (forall k, (k < d)%nat -> 0 <= f k) -> 0 <= sum f d",
    "MN2": "forall g g' d, (forall k, (k < d)%nat -> (g' k)^2 <= (g k)^2) -> sum (fun k => (g' k)^2) d <= sum (fun k => (g k)^2) d",
    "MN3": "forall u kappa g d, (forall k, (k < d)%nat -> u k = - (kappa k * g k)) -> sum (fun k => (u k)^2) d = sum (fun k => (kappa k * g k)^2) d",
}
#: The names that those use.
DEFINITIONS = {
    "grad": "(a b w : R) : R := a * w - b",
    "mix": "(p x y : R) : R := p * x + (1 - p) * y",
    "sum": "(f : nat -> R) (d : nat) : R := match d with O => 0 | S n => sum f n + f n end",
}


def statements(text: str) -> dict[str, str]:
    """Name -> statement, on one line."""
    found = re.findall(r"^(?:Theorem|Lemma) (\w+)\s*:?(.*?)\.\n", text, re.M | re.S)
    return {name: " ".join(body.split()) for name, body in found}


def test_the_thirty_say_what_the_document_says():
    assert tuple(STATEMENTS) == THIRTY
    found = statements(TEXT)
    assert {name: found[name] for name in THIRTY} == STATEMENTS
    defined = re.findall(r"^(?:Definition|Fixpoint) (\w+) (.*?)\.\n", TEXT, re.M | re.S)
    assert {name: " ".join(body.split()) for name, body in defined if name in DEFINITIONS} == DEFINITIONS


@needs_coq
def test_proofs_compile_and_rest_on_the_reals_only(tmp_path):
    build = ["make", "-s", "-C", str(FOLDER), "compile", f"BUILD={tmp_path}"]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
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
