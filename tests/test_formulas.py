"""Formulas in texts: TeX between dollars, and in letters; nowhere in a ledger outside its dollars."""

import re

import pytest

from iclbook.claims import all_ledgers
from iclbook.formulas import html, markdown, pieces, plain

KNOWN = [
    (r"\omega = 1/\sqrt{d}", "ω = 1/√d"),
    ("t^{-1/6}", "t^(−1/6)"),
    (r"H \ge 2", "H ≥ 2"),
    (r"d \times d", "d × d"),
    (r"\lvert\hat{y}(\theta) - \hat{y}_{gd}(\eta)\rvert", "|ŷ(θ) − ŷ_gd(η)|"),
    (r"\tilde{O}(\sqrt{1 + \sigma^2} \gamma d)", "Õ(√(1 + σ²) γ d)"),
    (r"\omega^* > \omega^c > 0", "ω* > ω^c > 0"),
    (r"\Sigma^{-1}", "Σ⁻¹"),
    (r"\mu^T (\omega \omega^T)", "μᵀ (ω ωᵀ)"),
    (r"\rho_{\mathrm{obs}}^L", "ρ_obs^L"),
    (r"\pm\mu_\gamma", "±μ_γ"),
    (r"L = 32{,}768", "L = 32,768"),
    ("p_{N+1}", "p_(N+1)"),
    (r"|\log \log t|", "|log log t|"),
    (r"0 \le \eta a", "0 ≤ η a"),
]


@pytest.mark.parametrize(("formula", "letters"), KNOWN)
def test_known_formulas(formula, letters):
    assert plain(f"${formula}$") == letters


def test_a_text_with_formulas():
    text = r"for $L > |a|$ & -0.5 < 1e-6"
    assert html(text) == (r'for <span class="math notranslate nohighlight">\(L &gt; |a|\)</span> &amp; −0.5 &lt; 10⁻⁶')
    assert plain(text) == "for L > |a| & −0.5 < 10⁻⁶"
    assert markdown(text, lambda words: words.strip().upper()) == r"FOR $L > \vert a\vert $ & −0.5 < 10⁻⁶"


def test_code_in_a_text():
    assert html("run `a < b -1`") == "run <code>a &lt; b -1</code>"
    assert plain("run `a -1`") == "run a -1"
    assert markdown("*run* `a_b`", lambda words: words.replace("*", "!")) == "!run! `a_b`"


@pytest.mark.parametrize("text", ["costs $5", "$$", "$a_{b$", f"${'{' * 400}x{'}' * 400}$"])
def test_what_is_no_formula_is_refused(text):
    with pytest.raises(ValueError, match=r"dollars|no formula"):
        pieces(text)


def texts():
    for ledger in all_ledgers():
        for claim in ledger.claims:
            said = [claim.where, claim.short, claim.says, claim.paper, claim.reduced, claim.out_of_reach]
            said += [text for part in claim.parts for text in (part.name, part.because, part.reading)]
            yield from ((claim.id, text) for text in said if text)


GREEK = "alpha|beta|gamma|delta|epsilon|eta|theta|kappa|lambda|mu|xi|pi|rho|sigma|tau|phi|omega|Gamma|Delta|Theta|Lambda|Xi|Sigma|Omega"
#: What is mathematics wherever it stands. Names of settings, such as wide_spectrum, are words.
MATHEMATICS = re.compile(
    rf"\\|sqrt\(|\babs\(|[<>]=|->|(?<![\w-])(?:{GREEK})(?:[_^*][\w*]*)?(?![\w-])|\b[A-Za-z]_[a-z]\b|\w\^[\w(-]"
)


def test_no_formula_of_a_ledger_stands_outside_dollars():
    left = [
        (name, words)
        for name, text in texts()
        for is_formula, words in pieces(text)
        if not is_formula and MATHEMATICS.search(words)
    ]
    assert left == []


def test_every_formula_of_a_ledger_is_tex_of_known_commands():
    """MathJax would show an unknown command in red; the browser's test looks for that on the pages. A command without its backslash would be letters."""
    commands = "sqrt lvert rvert Vert hat bar tilde mathrm mathbb partial times cdot le ge approx to pm ldots mid sim sum in exp log sinh cosh tan tanh min max"
    known = {*GREEK.split("|"), *commands.split()}
    for name, text in texts():
        for is_formula, words in pieces(text):
            if is_formula:
                assert set(re.findall(r"\\([A-Za-z]+)", words)) <= known, (name, words)
                bare = re.sub(r"\\mathrm\{\w+\}|\\[A-Za-z]+", " ", words)
                assert not set(re.findall("[A-Za-z]{3,}", bare)), (name, words)
        assert not re.search(r"[\\${}`]", plain(text).replace("{1,2,3,4}", "").replace("{3,4,5,6}", "")), name
