"""Formulas in texts: as TeX, as letters, and nowhere in a ledger outside their dollars."""

from __future__ import annotations

import re

import pytest

from iclbook.claims import all_ledgers
from iclbook.formulas import FUNCTIONS, GREEK, html, markdown, pieces, plain, tex

KNOWN = [
    ("omega = 1/sqrt(d)", r"\omega  = 1/\sqrt{d}", "ω = 1/√d"),
    ("t^(-1/6)", r"t^{-1/6}", "t^(−1/6)"),
    ("H >= 2", r"H \ge  2", "H ≥ 2"),
    ("d x d", r"d \times  d", "d × d"),
    ("x", "x", "x"),
    ("abs(yhat(theta) - yhat_gd(eta))", r"\lvert \hat{y}(\theta ) - \hat{y}_{gd}(\eta )\rvert", "|ŷ(θ) − ŷ_gd(η)|"),
    ("O~(sqrt(1 + s2) gamma d)", r"\tilde{O}(\sqrt{1 + \sigma^2} \gamma  d)", "Õ(√(1 + σ²) γ d)"),
    ("lambda = 1e5", r"\lambda  = 10^{5}", "λ = 100,000"),
    ("eps = 2e-4", r"\epsilon  = 2 \times 10^{-4}", "ε = 2 × 10⁻⁴"),
    ("omega* > omega^c > 0", r"\omega ^{*} \gt  \omega ^{c} \gt  0", "ω* > ω^c > 0"),
    ("Sigma^-1", r"\Sigma ^{-1}", "Σ⁻¹"),
    ("W_e^T f", r"W_{e}^{T} f", "W_eᵀ f"),
    ("xbar_l.x_q", r"\bar{x}_{l}\cdot x_{q}", "x̄_l·x_q"),
    ("rho_obs^L", r"\rho _{\mathrm{obs}}^{L}", "ρ_obs^L"),
    ("gamma -> 0+", r"\gamma  \to  0^{+}", "γ → 0+"),
    ("+-mu", r"\pm \mu", "±μ"),
    ("L = 10000", r"L = 10{,}000", "L = 10,000"),
    ("L = 32,768", r"L = 32{,}768", "L = 32,768"),
    ("H = 1..4", r"H = 1\ldots 4", "H = 1…4"),
    ("A^adv", r"A^{\mathrm{adv}}", "A^adv"),
    ("p_{N+1}", r"p_{N+1}", "p_(N+1)"),
    ("p(Y = c given x)", r"p(Y = c \mid  x)", "p(Y = c | x)"),
    ("0 < η·x₁² and w* ≠ 0", r"0 \lt  η·x_{1}^{2} \text{ and } w^{*} ≠ 0", "0 < η·x₁² and w* ≠ 0"),
    ("d^0.1", r"d^{0.1}", "d^(0.1)"),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "as_tex", "letters"), KNOWN)
def test_known_formulas(formula, as_tex, letters):
    assert tex(formula) == as_tex
    assert plain(f"${formula}$") == letters


def test_a_text_with_formulas():
    text = "for $L >= 40$ & -0.5 < 1e-6"
    assert html(text) == (r'for <span class="math notranslate nohighlight">\(L \ge  40\)</span> &amp; −0.5 &lt; 10⁻⁶')
    assert plain(text) == "for L ≥ 40 & −0.5 < 10⁻⁶"
    assert markdown(text, lambda words: words.strip().upper()) == r"FOR $L \ge  40$ & −0.5 < 10⁻⁶"


def test_code_in_a_text():
    assert html("run `a < b -1`") == "run <code>a &lt; b -1</code>"
    assert plain("run `a -1`") == "run a -1"
    assert markdown("*run* `a_b`", lambda words: words.replace("*", "!")) == "!run! `a_b`"


def test_a_formula_can_neither_open_an_element_nor_break_a_tables_cell():
    assert "<" not in tex("a < b > c")
    assert "|" not in tex("abs(x) |y| p(a given b)")


@pytest.mark.parametrize("text", ["costs $5", "$$", r"$\omega$", "$(a$", "$a_{b$"])
def test_what_is_no_formula_is_refused(text):
    with pytest.raises(ValueError, match=r"dollars|no formula"):
        pieces(text)


def texts():
    for ledger in all_ledgers():
        for claim in ledger.claims:
            said = [claim.where, claim.says, claim.paper, claim.reduced, claim.out_of_reach]
            said += [text for part in claim.parts for text in (part.name, part.because, part.reading)]
            yield from ((claim.id, text) for text in said if text)


#: What is mathematics wherever it stands. Names of settings, such as wide_spectrum, are words.
MATHEMATICS = re.compile(
    rf"sqrt\(|\babs\(|[<>]=|->|(?<![\w-])(?:{'|'.join(GREEK)})(?:[_^*][\w*]*)?(?![\w-])|\b[A-Za-z]_[a-z]\b|\w\^[\w(-]"
)


def test_no_formula_of_a_ledger_stands_outside_dollars():
    left = [
        (name, words)
        for name, text in texts()
        for is_formula, words in pieces(text)
        if not is_formula and MATHEMATICS.search(words)
    ]
    assert left == []


def test_every_formula_of_a_ledger_is_tex_of_known_words():
    """MathJax would show an unknown command in red; the browser's test looks for that on the pages."""
    commands = "sigma epsilon sqrt lvert rvert vert Vert hat bar tilde mathrm times cdot le ge lt gt to pm ldots mid sim sum in"
    known = {*GREEK, *commands.split(), *FUNCTIONS}
    for name, text in texts():
        for is_formula, words in pieces(text):
            if is_formula:
                assert set(re.findall(r"\\([A-Za-z]+)", tex(words))) <= known, (name, words)
        assert not re.search(r"[\\${}`]", plain(text).replace("{1,2,3,4}", "").replace("{3,4,5,6}", "")), name


def test_a_prime_and_a_power_share_one_exponent() -> None:
    assert tex("g_1'^2") == r"g_{1}^{\prime 2}"
    assert tex("g'_k^2") == r"g_{k}^{\prime 2}"
    assert tex("g'") == "g'"
