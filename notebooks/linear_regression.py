# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # In-Context Linear Regression
# *A reproduction of He, Pan, Chen and Yang, "In-Context Linear Regression Demystified" {cite}`he2025`.*
#
# Show a transformer forty pairs $(x_\ell, y_\ell)$ of a linear function it has never met, then a new $x_q$. It answers with a good guess of $y_q$, and no weight has changed. What has it computed?
# He et al. train the smallest model in which the question makes sense, one layer of softmax attention, and read the answer off the weights: with two heads or more the model makes **one step of
# gradient descent**, the step that a linear model with weights zero would make on the pairs shown. With one head it does something else, less well.
#
# **What came out.** The paper's account holds for most runs. Two numbers all but describe a trained head: how sharply it compares (its *scale*) and how much it passes on (its *weight*). Two heads
# of opposite sign make one step of gradient descent. The paper's values, scale 0.13 and weight 3.5, are one point on a long curve of nearly equal loss, and the noise of training chooses the point.
# In some runs of three and more heads a head's weight is still shrinking when training ends. (All letters: [Notation and glossary](../book/notation.md).)

# %% tags=["parameters", "remove-cell"]
profile = "paper"
device = "auto"

# %% tags=["hide-input"]
import numpy as np
import torch

from iclbook import theory
from iclbook.claims import Recorder, printed
from iclbook.draw import torch_rng
from iclbook.drawing import style
from iclbook.drawing.diagram import show_attention
from iclbook.papers.he2025 import (
    circuit_maps,
    circuits,
    dynamics,
    figure_2_7,
    figure_3_1,
    figures_2_4_and_2_5,
    figures_3_2_to_3_5,
    figures_4_1_and_4_2,
    learning_rates,
    loss,
    page_models,
    predictors,
    results,
    studies,
    theorem_1,
    trained_circuits,
    true_loss,
)
from iclbook.papers.he2025.circuits import (
    code_scale,
    read_counts,
    read_heads,
    read_sides,
    with_both_signs,
)
from iclbook.papers.he2025.runs import BATCHES, PAPER_HEADS
from iclbook.papers.he2025.train_in_page import train_in_page
from iclbook.sliders import show_model

style.use()
paper = profile == "paper"
record = Recorder("he2025", profile)
study = studies(profile)
task = study["isotropic"].data
d, L, s2 = task.d, task.L, task.noise_var  # of the paper; s2: the noise's variance
rng = torch_rng(0)

# %% [markdown]
# ## The task and the model
# A prompt is drawn in three steps: a hidden vector $\beta \sim N(0, I_d/d)$, covariates $x_\ell \sim N(0, I_d)$, and responses $y_\ell = \beta^\top x_\ell + \epsilon_\ell$ with noise of variance
# $\sigma^2$. The paper takes $d = 5$ and $L = 40$ pairs. Each pair becomes one token $z_\ell = (x_\ell, y_\ell)$, a column of $Z$; the query token is $z_q = (x_q, 0)$. Each of $H$ heads scores
# every token against the query, takes a softmax over them and averages what it reads. The answer is the last entry, $d+1$, of their sum:
#
# $$
# \begin{aligned}
# \hat y_q &= \sum_{h=1}^{H} \bigl(OV^{(h)}\bigr)_{d+1} \, Z \; \mathrm{smax}\bigl(Z^\top KQ^{(h)} z_q\bigr), \\
# KQ^{(h)} &= {K^{(h)}}^{\top} Q^{(h)}, \quad OV^{(h)} = O^{(h)} V^{(h)} .
# \end{aligned}
# $$
#
# Here $\mathrm{smax}$ is the softmax and $(\cdot)_{d+1}$ the last row. Of a head's key, query, output and value matrices $K, Q, O, V$ only the products $KQ$ and $OV$ matter. The **key-query
# circuit** $KQ$ decides where a head looks, the **output-value circuit** $OV$ what it passes on. Both are $(d+1) \times (d+1)$ matrices, and because the query's response is zero and only the last
# output is read, many of their entries cannot matter. Figure 1 of the paper marks those with a star. We change them at random and see whether any prediction moves.

# %% tags=["remove-input"]
show_attention(
    tokens=(r"z_\ell = (x_\ell, y_\ell)", "A pair of the prompt."),
    scores=(r"z_\ell^\top KQ\, z_q", "How well a pair fits the query."),
    weights=(r"\mathrm{smax}(\cdot)", "Positive, with sum one."),
    values=(r"OV_{d+1}\, z_\ell", "What a pair passes on."),
    answer=(r"\hat y_q", "Weights times values, over all pairs and heads."),
)

# %% [markdown]
# In code, for one prompt (tokens are the rows of `Z` here, and of $OV$ there is only the last row):


# %%
def predict(Z, x_q, KQ, OV):  # (L, d + 1), (d,), (H, d + 1, d + 1), (H, d + 1)
    z_q = torch.cat([x_q, torch.zeros(1)])  # the response of the query is not known
    weights = (Z @ KQ @ z_q).softmax(-1)  # (H, L): where each head looks
    return (weights * (OV @ Z.T)).sum()  # what it finds there, over all heads


fixed = torch.Generator().manual_seed(1)
beta = torch.randn(d, generator=fixed) / d**0.5
x = torch.randn(L, d, generator=fixed)
y = x @ beta + s2**0.5 * torch.randn(L, generator=fixed)
Z = torch.cat([x, y[:, None]], dim=1)

# %% tags=["hide-input"] mystnb={"image": {"alt": "The steps of a head as matrices of cells: the last column of KQ and all rows of OV but the last are starred."}}
style.show(circuit_maps.plot_architecture(d))
example = trained_circuits.example(d, L, rng)
record.all(trained_circuits.effective_entries(example, rng))

# %% [markdown]
# *Starred entries cannot change any answer (paper: Figure 1). Tokens stand in the columns of $Z$.*

# %% tags=["remove-input"]
record.verdicts("fig1")

# %% [markdown]
# The first $d$ columns of $KQ$ and the last row of $OV$ describe a head fully, and the heat maps below show only them.

# %% [markdown]
# ## Train it yourself
# The whole experiment is one call: fresh prompts at each step, and Adam. The trained matrices then go into `predict`, which answers queries along $\beta$.

# %% mystnb={"image": {"alt": "Left: loss along training; one head stays on a plateau that two heads leave. Right: answers against a query that moves along beta; that of one head levels off, that of two is closer to a straight line."}}
from iclbook.models import Attention
from iclbook.training.one_run import train

n_heads = 2  # change me: 3 or 4
queries = torch.linspace(-4, 4, 81)[:, None] * beta / beta.norm()
fig, (falls, line) = style.figure(2, height=2.5)
for h in sorted({1, n_heads}):  # beside one head
    history = train(
        Attention, task, n_heads=h, steps=3_000, learning_rate=3e-3, seed=15
    )
    KQ, OV = history.model.circuits().values()
    answers = torch.stack([predict(Z, x_q, KQ, OV[:, 0]) for x_q in queries])
    repeated = Z[..., None].expand(-1, -1, 81)  # the library's forward pass
    assert torch.allclose(answers, history.model(repeated, queries.T)[0], atol=1e-5)
    look = {"color": style.COLOURS[h], "label": f"{h} head{'s' * (h > 1)}"}
    falls.plot(history.steps, history.loss, **look)
    line.plot(queries @ beta / beta.norm(), answers, **look)
falls.set(xlabel="step", ylabel="loss", xlim=(0, 3_000))
line.set(xlabel="query, along β", ylabel="answer", xlim=(-4, 4))
style.name_ends(falls)
style.name_ends(line)
style.show()

# %% [markdown]
# *Two heads leave the loss at which one head stays, and their answer bends less than that of one head.*

# %% [markdown]
# **Why two heads of opposite sign?** A trained head all but reduces to two numbers: it scores example $\ell$ by $\omega s_\ell$, with $s_\ell = x_\ell^\top x_q$ ($\omega$: its scale), and multiplies
# the weighted mean of the responses by $\mu$ (its weight). The answer of one head alone bends: for a long query nearly all attention is on one example, and a longer query changes little. Let one head have
# $\omega = \gamma$ and a positive $\mu$, the other $-\gamma$ and $-\mu$. With $s = (s_1, \dots, s_L)$ and the mean $\bar s$, their attention weights differ by
#
# $$\mathrm{smax}(\gamma s)_\ell - \mathrm{smax}(-\gamma s)_\ell = \frac{2\gamma}{L}(s_\ell - \bar s) + O(\gamma^3).$$
#
# The terms even in $\gamma$, the bends, cancel. What is left is nearly linear in the query: a sum of $y_\ell (s_\ell - \bar s)$, which is one step of gradient descent from weights zero
# ([formula](#against-gradient-descent-and-ridge-figure-25)), on covariates less their mean.
#
# The panel at the top of the page takes the same steps live, with the same seed and code. One head learns first, nearly alone. Then the other takes the opposite sign, and the loss falls again.

# %% tags=["hero", "hide-input"]
show_model(train_in_page(task, history))

# %% [markdown]
# ## The runs
# As in the paper, we train with Adam on a fresh batch of prompts at each step, from PyTorch's default initialisation of separate $Q, K, V, O$. The paper's text and code differ in one setting: the
# definition above leaves the scores unscaled, the published code divides them by $\sqrt{d+1}$. We train both, *as printed* and *as coded*.

# %% tags=["hide-input"]
iso = results("isotropic", profile, device)
paired = with_both_signs(iso)  # without the runs that end with heads of one sign
every, heads = read_counts(iso), read_counts(paired)
every_coded, coded = (
    read_counts(of, code_scale(d), score_scale="code") for of in (iso, paired)
)
all_several, all_coded, several, several_coded = (
    {h: of[h] for h in PAPER_HEADS if h > 1}
    for of in (every, every_coded, heads, coded)
)
one, two = ({"text": heads[h], "code": coded[h]} for h in (1, 2))
record.all(
    trained_circuits.run_records(iso, study["isotropic"], all_several, all_coded)
)

# %% [markdown]
# Each model has {glue:text}`runs/seeds` seeds (one for eight heads, which the paper does not show) of {glue:text}`runs/steps` steps at rate {glue:text}`runs/rate` with batches of
# {glue:text}`runs/batch`; the {glue:text}`runs/models` models on this task, those of later sections among them, took {glue:text}`runs/minutes` minutes on one {glue:text}`runs/device`.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Ask the trained models
# Two of the trained models answer in this page. To plot a prompt, we put all its covariates on one line through the origin: a pair is then a point, and the model's answers are a curve.
#
# Drag the points, or put them on a parabola.

# %% tags=["hide-input"]
show_model(page_models.prompt(iso, task), of=[iso])

# %% [markdown]
# ## Key finding 1 of the paper: two numbers per head
# ### One head (Figure 2.1)

# %% tags=["hide-input"] mystnb={"image": {"alt": "Heat maps of KQ and OV of one trained head under both readings of the score scale; and all entries of KQ: the diagonal above the paper's value, the others near zero."}}
shown = {
    "as printed": (iso.group("h1"), 1.0),
    "as coded": (iso.group("code_h1"), code_scale(d)),
}
style.show(circuit_maps.plot_one_head(shown), of=[iso])
record.all(trained_circuits.one_head(one))

# %% [markdown]
# *One head is a multiple of the identity in $KQ$ and a single entry in $OV$, with scores as printed and as coded; the multiple is larger than the paper's $1/\sqrt d$ (paper: Figure 2.1). Maps
# of one seed, and the size of every entry of $KQ$.*

# %% tags=["remove-input"]
record.verdicts("fig2.1")

# %% [markdown]
# The multiple is $\omega$, the entry $\mu$. The head compares $x_q$ with each $x_\ell$ by $\omega\, x_\ell^\top x_q$ and averages responses: a kernel smoother.
#
# ### Two heads (Figures 2.2 and 2.3)

# %% tags=["hide-input"] mystnb={"image": {"alt": "Heat maps of KQ and OV of the two trained heads: one positive, one negative, of equal size; their sum is nearly empty."}}
style.show(circuit_maps.plot_circuits(iso.group("h2"), run=0), of=[iso])
record.all(trained_circuits.two_heads(two))

# %% [markdown]
# *The two heads are opposite and of equal size, so that their sum is nearly empty (paper: Figure 2.2). $KQ$ above, $OV$ below; orange adds, blue subtracts; one colour scale for $KQ$ and one for $OV$.*

# %% tags=["remove-input"]
record.verdicts("fig2.2")

# %% tags=["hide-input"] mystnb={"image": {"alt": "omega and mu of two heads against the training step, for both readings: mirror images."}}
style.show(
    trained_circuits.plot_dynamics(
        {"as printed": every[2], "as coded": every_coded[2]}
    ),
    of=[iso],
)
record.all(trained_circuits.mirror(two))

# %% [markdown]
# *One head of a pair learns first; then both settle at opposite $\omega$ and opposite $\mu$. The paper prints 0.13 and 3.5, dashed (paper: Figure 2.3). A line is a head of one seed; dotted:
# seeds whose heads keep one sign.*

# %% tags=["remove-input"]
record.verdicts("fig2.3")

# %% [markdown]
# The positive head ($\omega, \mu > 0$) looks at the tokens *most like* the query and adds their responses; the negative one looks at those *most unlike* it and subtracts theirs. Some
# seeds instead keep heads of one sign and answer worse. Below, a *pair* of heads has both signs.
#
# | Seeds that end with both signs, of {glue:text}`runs/seeds` | two, three and four heads |
# |---|---|
# | as printed | {glue:text}`runs/both_signs` |
# | as coded | {glue:text}`runs/both_signs_coded` |
#
# ### How the pattern forms (Figures 2.6 and 2.7)
# The pattern grows out of random first weights. With two heads it is there for good after {glue:text}`fig2.6/text/pattern` of the run, in the median pair; three and four heads can take much
# longer. Choose the number of heads.

# %% tags=["hide-input"]
circuit_maps.show_circuits(iso, few=not paper)
record.all(trained_circuits.early(two))
record.verdicts("fig2.6")

# %% [markdown]
# How often does a run end with a *dummy head*, one whose $\omega$ and $\mu$ both decay, or with heads of one sign? {glue:text}`runs/seeds` seeds are too few to tell. So the full model is also
# trained from {glue:text}`census/runs` initialisations for each number of heads, with fewer steps ({glue:text}`census/steps`) and smaller batches ({glue:text}`census/batch`). The second panel shows
# the same for plain gradient descent ({glue:text}`census/gd_runs` runs each) on an [approximate loss](#why-the-loss-of-two-numbers-per-head), a formula in $\omega$ and $\mu$ alone.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Shares of runs by the way they end, for H = 2, 3, 4: Adam on the full model and gradient descent on the approximate loss."}}
seeds = results("seeds", profile, device)
adam = read_counts(seeds)
descended = results("descent", profile, device)
descent = figure_2_7.read_descent(descended)
style.show(
    figure_2_7.plot_endings(figure_2_7.endings(adam, descent)), of=[seeds, descended]
)
record("census/batch", study["seeds"].batch_size)
record.all(
    figure_2_7.ending_records(adam, descent)
    | figure_2_7.dummy_records(every[4], adam[4])
)
sides = {
    "text": read_counts(paired, read=read_sides),
    "code": read_counts(paired, code_scale(d), read_sides, score_scale="code"),
}
sides = {reading: {h: of[h] for h in several} for reading, of in sides.items()}
both_sides = {"text": (several, sides["text"]), "code": (several_coded, sides["code"])}
record.all(trained_circuits.finding_1(both_sides))
record.all(trained_circuits.one_sided_form(seeds, adam))

# %% [markdown]
# *With more heads, fewer runs end with one sign; dummy heads appear only under Adam. Shares of runs, for Adam on the full model and for gradient descent on the approximate loss.*

# %% tags=["remove-input"]
record.verdicts("kf1", "both-signs", "fig2.7", "q-head-census", "q-one-sided")

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Which starts end with one sign
# For two heads the first steps decide, since a head grows along $\omega + \mu$ ([exercise 4](#exercises)):

# %% tags=["remove-input"]
figure_2_7.table_of_starts(adam, descent)

# %% [markdown]
# Heads of one sign are a stable solution of their own. Their circuits are $\omega (I + A)$ with an antisymmetric $A$: its norm is {glue:text}`onesided/skew` times that of $I$ (median over the
# heads), that of the symmetric rest {glue:text}`onesided/symmetric`. The two heads turn the query in opposite senses, so the turns cancel in the loss. Likewise a head with a small $\mu$, among
# three or four, hardly affects the loss. The loss sees the sums over the heads of one side, $\sum \mu^{(h)} KQ^{(h)}$, and these sums have the paper's form in every run with heads of both signs.

# %% [markdown]
# ## Key finding 2: which values?
# ### The same course every time (Figure 2.8, Key finding 4)

# %% tags=["hide-input"] mystnb={"image": {"alt": "abs omega and sum of positive mu against the training step for two, three and four heads, with the paper's 0.13 and 3.5."}}
style.show(trained_circuits.plot_limits(several, several_coded), of=[iso])
record.all(trained_circuits.finding_4(both_sides) | trained_circuits.scales(two))
record.all(trained_circuits.limits({"text": several, "code": several_coded}))
record.all(trained_circuits.common_scale(several, adam[2], d, L, s2))

# %% [markdown]
# *The scale $\gamma$, which all $|\omega|$ share, and the sum of the positive $\mu$ end alike for any number of heads (paper: Figure 2.8). Means over seeds; dashed
# curves: as coded.*

# %% tags=["remove-input"]
record.verdicts("fig2.8", "kf4")

# %% [markdown]
# Early, $|\omega|$ overshoots: the heads that learn first grow towards the scale of a single head. Once others oppose them, it falls back. Where pairs end hardly depends on the start.
#
# A softmax sees only the product of weights and score scale, so both scalings of the scores can reach the same loss. They come to rest at different places:
#
# | Two heads, each seed with a pair | scale $\gamma$, after any division of the scores | sum of positive $\mu$ |
# |---|---|---|
# | scores as printed | {glue:text}`scale/text/gammas` | {glue:text}`scale/text/mus` |
# | scores as coded | {glue:text}`scale/code/gammas` | {glue:text}`scale/code/mus` |
# | as printed, mean for H = 2, 3, 4 | {glue:text}`fig2.8/text/gammas` | |
# | the paper | 0.13 | 3.5 |
#
# The two printed numbers agree with each other. For each $\gamma$ one sum of $\mu$ is best (the curve of these is the [solution manifold](#the-solution-manifold)), and a sum of 3.5 goes with
# $\gamma =$ {glue:text}`scale/printed_gamma`, which rounds to 0.13. Our runs as printed settle further along the same curve.

# %% tags=["hide-input"] mystnb={"image": {"alt": "For each seed of three or more heads, omega of the heads and their mu stacked: the omega of one side coincide, their mu differ, and the stacks end at one height."}}
style.show(
    trained_circuits.plot_splits({h: every[h] for h in every if h > 2}), of=[iso]
)
record.all(trained_circuits.finding_2({"text": several, "code": several_coded}))
record.verdicts("kf2")
record.all(
    trained_circuits.eight_heads(*(heads[h] for h in (8, 4, 2))) if 8 in heads else {}
)

# %% [markdown]
# *All heads except dummies (grey) share one $|\omega|$; each seed splits $\mu$ differently, and only the sums agree. A column is a seed, a dot or a block a head; dashed: the paper's values.*
#
# Eight heads, which the paper does not show, do the same in our one run at the paper's size: each $\omega$ is $\pm\gamma$ or about zero.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### A minimiser, or a noise level?
# If 0.13 were the minimiser of the loss, it would not depend on the learning rate. So two heads are trained at three rates and three batch sizes, and the true loss of a pair $(\gamma, -\gamma)$,
# $(\mu, -\mu)$ is computed by numerical integration, without samples. The minimum is at $\gamma =$ {glue:text}`minimiser/gamma`, and 0.13 costs only {glue:text}`minimiser/cost_of_013` more: 0.13 is
# where the noise of training leaves a run.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Left: true and approximate loss of a head pair against gamma. Right: gamma after training against learning rate over root of batch, for three batch sizes, on one line."}}
manifold = learning_rates.solution_manifold(36 if paper else 12, d, L, s2)
noise = {b: results(f"noise_b{b}", profile, device) for b in BATCHES}
settings = learning_rates.read_settings(noise)
approx = loss.manifold_loss(manifold.gamma, d, L, s2)
style.show(
    learning_rates.plot_noise_level(manifold, approx, settings), of=noise.values()
)
cost = true_loss.pair_exact(printed("he2025")["fig2.8/gamma"], d, L, s2).loss
record.all(learning_rates.setting_records(heads[2], settings, manifold.best, cost))
decayed, reduced = (
    read_heads(results(name, profile, device).group("h2"))
    for name in ("decay", "reduced")
)
record.all(
    learning_rates.decay_records(decayed, heads[2], reduced, manifold.best, d, L, s2)
)
varied = learning_rates.read_variations(lambda name: results(name, profile, device))
record.all(learning_rates.variation_records(varied))
other_rates = results("seeds_rates", profile, device)
record.all(learning_rates.start_records(other_rates, seeds))

# %% [markdown]
# *The true loss has a minimum on a curve so flat that the noise of training decides where a run rests: $\gamma$ grows as a power of rate over root of batch. Loss of a pair with its best $\mu$ (disc: the
# minimum), and $\gamma$ after training, every run a mark; open: the lowest rate, where $\gamma$ still falls. The paper's 0.13 is dashed in both.*

# %% tags=["remove-input"]
record.verdicts("q-minimiser", "robust", "robust-gamma", "robust-others")

# %% [markdown]
# When the batch shrinks sixteenfold, $\gamma$ grows by the factor {glue:text}`minimiser/batch_ratio`. Where $\gamma$ has come to rest it is proportional to
# $(\text{rate} / \sqrt{\text{batch}})^p$ with $p =$ {glue:text}`noise/power`, to within {glue:text}`noise/off`: rate over root of batch sets how far Adam's random steps carry the weights. A tenfold
# rate should then give the factor $10^p$. We measure only {glue:text}`minimiser/rate_ratio`, because at the lowest rate $\gamma$ has not come to rest: it falls by
# {glue:text}`minimiser/still_falling` in the last quarter of the run. (The integral for the true loss: by symmetry only the length of $x_q$ and the scores matter. With
# $1/v = \int_0^\infty e^{-uv}\,du$, for the softmax's denominator $v$, the expectation becomes a product over the tokens.)
#
# Two other ways of training end elsewhere. Trained as two numbers per head, with Adam and on the same loss, the model settles at $\gamma =$ {glue:text}`reduced/gamma`
# ({glue:text}`reduced/one_sided` of its {glue:text}`reduced/runs` runs ends with heads of one sign). When the learning rate falls to a hundredth, along a cosine over all {glue:text}`runs/steps` steps,
# $\gamma$ falls to {glue:text}`decay/gammas` (a value a run), below what the paper prints. There it stops, at a loss {glue:text}`decay/cost` above the minimum: the steps have become too small for
# so flat a loss. So 0.13 belongs to one recipe of training.
#
# The paper says that nothing much depends on such settings, and later that $\gamma$ does. Of all these runs {glue:text}`robust/pattern_share` end as a matched pair. The
# others keep heads of one sign, as in the runs from many starts above, and have no $\gamma$. Rate and batch seldom decide which: from {glue:text}`census/runs` starts,
# {glue:text}`robust/otherwise` of the runs with other settings end otherwise. Where there is a pair, its $\gamma$ moves with the setting, along a curve so flat that the loss
# hardly changes. The last claim above asks the same of other optimisers and other data, {glue:text}`census/runs` runs of each: momentum, AdamW, ten covariates, more noise.

# %% [markdown]
# ## Key finding 3: the learned predictor is a gradient step
# ### Error against context length (Figure 2.4)

# %% tags=["hide-input"] mystnb={"image": {"alt": "ICL error against context length for one to four heads; those with two or more coincide."}}
curves = {h: figures_2_4_and_2_5.read_curve(paired, f"h{h}") for h in heads}
style.show(figures_2_4_and_2_5.plot_error_by_length(curves, trained=L), of=[iso])
record.all(
    figures_2_4_and_2_5.length_records(iso, curves, L)
    | figures_2_4_and_2_5.code_values(paired)
    | theorem_1.risk_records(d, L, s2)
)

# %% [markdown]
# *Two or more heads have the same ICL error (mean squared error on fresh prompts), to a per cent, at every context length; one head has more (paper: Figure 2.4). Mean over seeds, and the same
# divided by that of two heads; dotted: the training length.*

# %% tags=["remove-input"]
record.verdicts("fig2.4", "q-eight-heads", "code-values")

# %% [markdown]
# ### Against gradient descent and ridge (Figure 2.5)
# One step of gradient descent on the pairs, from zero and with rate $\eta$, predicts $\hat y_q = \frac{\eta}{L} \sum_\ell y_\ell\, x_\ell^\top x_q$. This is the *vanilla* step. Its *debiased* form
# centres the covariates first:
#
# $$\hat y_q^{\mathsf{gd}}(\eta) = \frac{\eta}{L} \sum_{\ell=1}^{L} y_\ell \, \bar x_\ell^\top x_q , \qquad \bar x_\ell = x_\ell - \frac{1}{L} \sum_{k} x_k .$$
#
# Both errors have closed forms; the rate is the best at the training length. Ridge regression, least squares with a penalty of $\lambda = \sigma^2 d$ on large weights, is the Bayes estimator: no
# other guess has a smaller mean error.

# %% tags=["hide-input"] mystnb={"image": {"alt": "ICL error of two heads, vanilla and debiased gradient descent and ridge against context length."}}
by = figures_2_4_and_2_5.estimators(curves[2].lengths, d, L, s2)
style.show(figures_2_4_and_2_5.plot_estimators(curves, by), of=[iso])
record.all(figures_2_4_and_2_5.estimator_records(curves, by, d, L, s2))
prompts = theory.sample_prompts(8192, d, L, s2, seed=1)
record.all(figures_2_4_and_2_5.predictor_records(paired, several, prompts))
record.all(
    figures_2_4_and_2_5.scale_records(several, d, L, s2)
    | theorem_1.near_bayes_records(d, L, s2)
)

# %% [markdown]
# *Two heads nearly match debiased gradient descent in error at every length, and do worse than ridge regression (paper: Figure 2.5). The error, and how far the two heads and
# vanilla gradient descent (green) lie above or below debiased gradient descent (dashed); bars: standard errors.*

# %% tags=["remove-input"]
record.verdicts("fig2.5", "kf3", "near-bayes", "two-head-form")

# %% [markdown]
# Around the training length vanilla gradient descent errs less than debiased. Centring costs one pair: each at its best rate, the debiased step on $L$ pairs has exactly the error of the vanilla
# step on $L - 1$, for the covariates have mean zero. Two opposite heads cannot make the vanilla step, since a softmax does not see a shift of all covariates.
#
# Equal errors do not prove equal predictors. So we also compare the predictions, prompt by prompt. Debiased gradient descent, with the best rate for each model, leaves at most {glue:text}`kf3/most`
# of the variance of $\hat y_q$ unexplained in any run of two to four heads; vanilla gradient descent leaves {glue:text}`kf3/least_vanilla` or more. The *two-head form*, in which all positive heads
# are merged into one and all negative heads into another, leaves as little.
#
# Is that near the Bayes estimator? At the training length the error is {glue:text}`nearbayes/total_at_L` times that of ridge regression. But both include the noise. For the excess over it the
# factor is {glue:text}`nearbayes/excess_at_L`, and it grows with the context, for the step keeps the rate of the training length.
#
# ## Why: the loss of two numbers per head
# Put the pattern in by hand, with the covariates as rows of $X$ and the responses in $y$: $\hat y_q = \sum_h \mu_h \langle y, \mathrm{smax}(\omega_h X x_q) \rangle$. Then the expected loss, the
# *risk*, is a function of $(\omega, \mu)$ alone. The paper replaces it by
#
# $$
# \tilde{\mathcal L}(\omega, \mu) = 1 + \sigma^2 - 2 \mu^\top \omega
#   + \mu^\top \Bigl( \omega \omega^\top + \frac{1 + \sigma^2}{L} \exp(d\, \omega \omega^\top) \Bigr) \mu ,
# $$
#
# with the exponential taken entry by entry.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Left: approximate and true loss along a two-head run. Right: relative error of the approximation against L."}}
close = theorem_1.approximation(heads[2], 30 if paper else 10, d, L, s2)
style.show(theorem_1.plot_approximation(close, trained=L), of=[iso])
record.all(theorem_1.approximation_records(close, d, s2))

# %% [markdown]
# *The approximate loss follows the true one along training. Its error relative to the loss falls with $L$; relative to the excess over the noise it does not. Panels: both losses, and both errors;
# dotted: one per cent; dashed: the paper's $L$.*

# %% tags=["remove-input"]
record.verdicts("approx-loss", "q-approx-loss")

# %% [markdown]
# Along a run the relative error of the approximation is {glue:text}`approx/largest` at most. After the first steps the approximation is lower than the true loss, by a difference of at most
# {glue:text}`approx/below_most`, at the end {glue:text}`approx/below_end`. Near the optimum it is off by {glue:text}`approx/at_40` of the loss at the training length, and by one per cent at
# $L \approx$ {glue:text}`approx/length_for_1_percent`. But both losses include the noise. Of the *excess* over it, which training can change, {glue:text}`approx/excess_at_40` is missing at the
# training length and {glue:text}`approx/excess_large_L` at the largest $L$: exactly the share $1 / (1 + (1 + \sigma^2) d)$ in the limit $\gamma \to 0$, at every $L$. It vanishes as $d$ grows, not
# as $L$ does.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### One head: $\omega = 1 / \sqrt d$?
# For the approximate loss the paper's $\omega\sqrt d = 1$ is exact. For the true loss the best value falls with $L$, from above 1 to below it.

# %% tags=["hide-input"] mystnb={"image": {"alt": "omega times root d minimising the approximate and the true loss against L, with trained heads."}}
style.show(theorem_1.plot_single_head(one, d, L, s2), of=[iso])
record.all(theorem_1.single_head_records(one, d, L, s2))

# %% [markdown]
# *A single head's best scale crosses the paper's $1/\sqrt d$ at one length only. $\omega\sqrt d$ that minimises the true loss (dotted: its limit), and the paper's 1 (dashed). Marks: trained heads
# under both readings of the scores.*

# %% tags=["remove-input"]
record.verdicts("single-head", "q-single-head")

# %% [markdown]
# At the training length the best value is
# {glue:text}`single/true_omega`, and the trained heads are there ({glue:text}`single/text/omega`).

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### The solution manifold
# Let all heads have $\omega_h = \gamma\, \mathrm{sign}(\mu_h)$, and let their $\mu$ sum to zero. Then the best sum of the positive $\mu$ is
# $\mu_\gamma = \frac{\gamma}{2} \bigl( \gamma^2 + \frac{1 + \sigma^2}{L} \sinh(d \gamma^2) \bigr)^{-1}$: a curve of solutions, on which a larger $\mu_\gamma$ makes up for a smaller $\gamma$.
#
# Move $\gamma$ to see how close the pair comes to debiased gradient descent, and where it lies on the solution manifold. As $\gamma \to 0$ the two heads' difference becomes a derivative, and the predictor
# becomes exactly linear in the scores.

# %% tags=["hide-input"]
record.all(learning_rates.manifold_records(manifold, d, L, s2))
record.verdicts("manifold")
learning_rates.show_pair(manifold, prompts, d, L, s2, few=not paper)

# %% [markdown]
# The curve is right, and along it the approximate loss rises with $\gamma$. The true loss, of which the paper says nothing here, first falls: its best pair is at $\gamma =$ {glue:text}`minimiser/gamma`.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Theorem 1
# The paper sums this up in a theorem: the smaller $\gamma$, the nearer the pair is to debiased gradient descent; the limit is the best pair, and its risk is within a factor of the Bayes risk. The
# bound holds, far from tight, and no pair attains the optimum of the approximate loss. (As printed, the theorem leaves out the two-head model that it explains: [Errata](#errata).)

# %% tags=["hide-input"] mystnb={"image": {"alt": "Gap between the pair and debiased gradient descent against gamma, with the theorem's bound."}}
eta, draws = loss.eta_star(d, L, s2), (2, 3, 4, 5)
gaps = [theorem_1.gap(d, L, s2, eta, seed) for seed in draws]
style.show(theorem_1.plot_gap(gaps[0]))
by_dimension = [theorem_1.gap_by_dimension(L, s2, eta, seed) for seed in draws]
record.all(theorem_1.gap_records(gaps, by_dimension))
record.all(theorem_1.optimality_records(d, L, s2))

# %% [markdown]
# *The pair approaches debiased gradient descent as $\gamma$ shrinks. Gap for the median prompt and at the 99 % quantile; dashed: the theorem's bound; dotted: slope 2.*

# %% tags=["remove-input"]
record.verdicts("thm1.1", "thm1.2")

# %% [markdown]
# The gap falls with the slope {glue:text}`thm1.1/slope`, so as $\gamma^2$ and not as $\gamma$: the term that the bound allows for cancels between the two heads. In
# the dimension, too, the bound is not tight: at the largest $\gamma$ that the theorem admits the gap grows as $d$ to the power {glue:text}`thm1.1/power`, the bound to {glue:text}`thm1.1/bound_power`.
#
# The minimum is an infimum: at every finite $\gamma$ the approximate loss lies above its limit, by a term in $\gamma$ to the power {glue:text}`thm1.2/power`, so nothing *attains* it. $\eta^*$ is exact
# for debiased gradient descent at every length. Vanilla gradient descent has another optimum, by a term of order $1/L$. How far is that from the Bayes estimator? Theorem 1.3 has a bound.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Ratio of gradient descent's risk to the Bayes risk against xi, total and excess, with Theorem 1.3's bound."}}
style.show(theorem_1.plot_bayes_ratio(d / L, s2))

# %% [markdown]
# *Gradient descent's total risk stays below the printed bound (dashed: Theorem 1.3); its excess risk need not. Ratios to the Bayes risk against $\xi = d/L$, one panel for each noise; dotted: the
# paper's $\xi$.*

# %% tags=["remove-input"]
record.verdicts("thm1.3", "q-bayes-ratio", "q-bayes-finite", "gd-coincide")

# %% [markdown]
# The bound is one for the total risk, noise included. Of the excess risk, which is what a better predictor could lower, the ratio may be larger. And the bound belongs to a limit: at
# the paper's own size the total risks have the ratio {glue:text}`bayesfinite/ratio`, and the bound is {glue:text}`fig2.5/ridge_bound_40`.
#
# A rate fitted to the training length leaves a bias that no context removes: the floor is {glue:text}`floor/value` against the noise {glue:text}`noise/variance`, and at a hundred examples the error is
# still {glue:text}`floor/at_100` above it.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Two stages, and no end
# Gradient descent on $\tilde{\mathcal L}$ passes two stages in the paper, from a small start. First, each $\omega_h$ takes the sign of its $\mu_h$, and the $\mu$ come to sum to zero. Then all
# $|\omega_h|$ become equal. We find that with two and three heads the $\mu$ sum to zero in the second stage only, and with four heads between the two.

# %% tags=["hide-input"] mystnb={"image": {"alt": "omega and mu of four heads against time from a small start: signs match first, then the mu sum to zero, then all omega of a side coincide."}}
style.show(figure_2_7.plot_stages(0.03, d, L, s2))

# %% [markdown]
# *First the signs settle, then the $\mu$ sum to zero, then all heads share one $|\omega|$: four heads from one start of scale 0.03. Dotted: from when
# each holds for good.*

# %% tags=["hide-input"] mystnb={"image": {"alt": "When sign matching, zero sum and homogeneous scaling appear for good, for 2, 3 and 4 heads."}}
times = figure_2_7.stage_times(descent)
style.show(figure_2_7.plot_stage_times(times), of=[descended])
record.all(figure_2_7.stage_records(times) | figure_2_7.high_order(descent, d, L, s2))
record.all(theorem_1.expansion_records(d, L, s2))

# %% [markdown]
# *Signs match at once. With two and three heads the $\mu$ sum to zero about when all $|\omega|$ become equal; with four heads the scales take much longer. Thick: half of the runs with two, three and four heads; thin: nine tenths; gap: median.*

# %% tags=["remove-input"]
record.verdicts("stage1", "stage2", "updates", "taylor", "holder")

# %% [markdown]
# The first stage thus has two parts. Signs match at once. The $\mu$ of two, three and four heads sum to zero {glue:text}`stage/zero_over_sign` times as late, in the median run. With two and three
# heads the scales become equal about then, or somewhat before; with four heads only later, as the paper says.
#
# The displayed updates and the Taylor form of the loss are exact. The lower bound of the series is right, too. Equal scales make it an equality where the $\mu$ sum to zero, as they do in Stage II; equal
# scales alone do not, for the even terms remain.
#
# And then? On the manifold the loss rises as $\gamma^4$, so gradient flow slides towards $\gamma = 0$ ever more slowly. There $\dot\gamma \propto -\gamma^7$, hence $\gamma \propto t^{-1/6}$:
# there is no scale at which it stops.

# %% tags=["hide-input"]
record.all(figure_2_7.flow_records(figure_2_7.flow_of_pair(d, L, s2)))
record.verdicts("q-gd-limit")
show_model(page_models.reduced_flow(d, L, s2))

# %% [markdown]
# The flow is integrated in this page, and falls past the paper's 0.13.

# %% [markdown]
# ## Extensions

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Correlated covariates (Figure 3.1)
# The paper does not state the covariance $\Sigma$; we take $\Sigma_{ij} = 2^{-|i-j|}$, whose inverse is tridiagonal and so easy to recognise. Where two heads
# take opposite signs, the $d \times d$ block of each $KQ$ is a preconditioner, a matrix that multiplies the gradient. It is the best one for attention without softmax
# ([below](#linear-attention-and-length-figure-41)), which at this length is not quite $\Sigma^{-1}$.

# %% tags=["hide-input"] mystnb={"image": {"alt": "KQ blocks of two heads, the inverse covariance and the optimal linear preconditioner."}}
nonisotropic = results("nonisotropic", profile, device)
starts = results("seeds_nonisotropic", profile, device)
found, many = (
    figure_3_1.preconditioners(r, study["nonisotropic"].data)
    for r in (nonisotropic, starts)
)
style.show(figure_3_1.plot_preconditioners(found), of=[nonisotropic])
record.all(figure_3_1.preconditioner_records(nonisotropic, found, many))

# %% [markdown]
# *Where heads split, their $KQ$ blocks are proportional to the optimal preconditioner of linear attention. The blocks of the two heads of the first run that splits, $\Sigma^{-1}$, and the
# best preconditioner of linear attention (paper: Figure 3.1); each is divided by its largest entry, below its name.*

# %% tags=["remove-input"]
record.verdicts("fig3.1")

# %% [markdown]
# {glue:text}`fig3.1/both_runs` of {glue:text}`fig3.1/runs` runs end with a head of each sign.
#
# | Distance (0: proportional; 1: orthogonal) | |
# |---|---|
# | from the blocks of these heads to the optimal preconditioner | {glue:text}`fig3.1/to_optimal` |
# | from the blocks to $\Sigma^{-1}$ | {glue:text}`fig3.1/to_inverse` |
# | from the optimal preconditioner to $\Sigma^{-1}$, at $L = 10, 40, 160, 1000$ | {glue:text}`fig3.1/inverse_by_length` |
#
# At this length the optimum and $\Sigma^{-1}$ differ, and training finds the optimum. They come together as the context grows. Not every start gets there: of {glue:text}`census/runs` shorter runs
# {glue:text}`fig3.1/both_share` split, and {glue:text}`fig3.1/linear_share` of the linear heads come to the optimum.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Two tasks at once (Figures 3.2 to 3.5)
# Each $x_\ell$ now has six features and two responses: that of task 1 uses features 1 to 4, that of task 2 features 3 to 6. With four heads, each task can have a pair of its own; three must share.
# The paper's text has one $\beta$ for both tasks; its published code has a $\beta$ for each, and other lengths and noise. Two heads do not suffice, three make two separate
# gradient steps, and in the text's setting four find something better.

# %% tags=["hide-input"] mystnb={"image": {"alt": "KQ and OV of each head for two tasks, H = 1 to 4, in the text's and in the code's setting."}}
runs = {
    reading: results(f"multitask_{reading}", profile, device)
    for reading in ("text", "code")
}
tasks = {name: study[f"multitask_{name}"].data for name in runs}
both = figures_3_2_to_3_5.read_settings(runs, tasks)
shown = {"text": both["text"], "published code": both["code"]}
style.show(figures_3_2_to_3_5.plot_multitask(shown, run=0), of=runs.values())
starts = results("seeds_multitask", profile, device)
record.all(figures_3_2_to_3_5.multitask_records(both, runs, tasks, starts))

# %% [markdown]
# *In the code's setting four heads (last row) serve one task each, a pair for either; in the text's they also pass each task's responses to the other (frames
# in $OV$; paper: Figures 3.2 to 3.5). For each head $KQ$ above, the features that it compares, and $OV$ below: whose responses (column) it adds to whose prediction (row).*

# %% tags=["remove-input"]
record.verdicts(
    "multitask-pattern", "fig3.2", "fig3.3", "fig3.4", "fig3.5", "q-cross-task"
)

# %% [markdown]
# The text has $L = 40$ and noise 0.1; the code $L = 48$, noise 0.4 in the context and none on the target, and scaled scores. What counts for the predictor are the sums of
# $\mu^{(h)}_n \omega^{(h)}_S$ over the heads: the step that task $n$ makes with the features $S$. Two heads do not suffice, for their steps use the other task's features, too. Of three heads one
# serves the two tasks with opposite signs. In the sums over three heads the other task's features cancel.
#
# In the code's setting four heads make the same two steps. Of shorter runs from more starts {glue:text}`fig3.4/code/exclusive` end with one pair of heads for each task; in the others heads are shared.
# In the text's setting they find something better, because both tasks have one $\beta$: the other task's responses know of it. With the features
# $f_{mj} = \frac1L \sum_\ell y_{\ell m} \bar x_{\ell j}$ the best predictor of task $n$ is $\sum_j x_{qj} \sum_m c_{mj} f_{mj}$, and every feature $j$ asks for its own $c_j$:
#
# $$ A_j c_j = b_j, \qquad A_j = \mathbb{E}\, f_j f_j^\top, \quad b_j = \mathbb{E}\, f_j \beta_j . $$
#
# The moments of a Wishart matrix give $A_j$ and $b_j$ in closed form (`figures_3_2_to_3_5.best_steps`). Where the tasks share features, $A_j$ is not diagonal, so the off-diagonal entries of $OV$ are needed.
# The error of this cross-task estimator is {glue:text}`crosstask/risk_ratio` of that of separate steps, and {glue:text}`crosstask/runs` of {glue:text}`runs/seeds` runs of four heads find its
# coefficients, off by {glue:text}`crosstask/to_cross` of their size. (A run that does not is stuck above the error of three heads.) So four heads make $N$ separate steps only where each task has its own $\beta$.

# %% tags=["remove-input"]
figures_3_2_to_3_5.table_of_steps(both["text"], run=0)

# %% [markdown]
# ## What the softmax is for

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Linear attention and length (Figure 4.1)
# Linear attention, $\frac{1}{L} \sum_\ell (ov \cdot z_\ell)(z_\ell^\top KQ\, z_q)$, learns a gradient step as well ($ov$: the last row of $OV$). The paper's words "the factor $1/L$ is hard-coded"
# can be read in two ways: as the current context's $L$, or always as the training length. Only the second fails at other lengths.

# %% tags=["hide-input"] mystnb={"image": {"alt": "ICL error of linear attention under both normalisations and of softmax attention against context length."}}
linear = figures_2_4_and_2_5.read_curve(iso, "linear")
closed = figures_4_1_and_4_2.linear_closed(
    read_heads(iso.group("linear")), linear.lengths, task
)
frozen = figures_4_1_and_4_2.frozen_linear(iso, linear.lengths, task, rng)
style.show(
    figures_4_1_and_4_2.plot_linear_attention(
        curves, linear, frozen.mean, closed, trained=L
    ),
    of=[iso],
)
record.all(
    figures_4_1_and_4_2.linear_records(linear, frozen, curves[2], L)
    | figures_4_1_and_4_2.linear_by_softmax_records(prompts, d)
)

# %% [markdown]
# *Frozen at its training length, linear attention fails at other lengths; divided by the length at hand, it does as well as softmax (paper: Figure 4.1).*

# %% tags=["remove-input"]
record.verdicts("fig4.1", "q-length", "linear-by-softmax")

# %% [markdown]
# The error that rises with the length in the paper's figure belongs to the second reading. With the current $1/L$,
# linear attention generalises in length as softmax attention does: at a hundred examples its error is {glue:text}`qlength/over_softmax` times that of two softmax heads.
#
# A softmax does not see a shift that is common to all keys; linear attention does. Two softmax heads therefore make *centred* linear attention, as the paper's next sentence says: exact in the limit
# $\gamma \to 0$ when the tokens' mean is zero. They do not make "any" linear attention, as the paper says. With tokens as they are drawn here they miss one random linear attention by the fraction
# {glue:text}`linsoft/uncentred` of its output (root mean square).

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Other activations (Figure 4.2)
# The exponential in the softmax can be replaced by any $f(x) \approx 1 + C x$, normalised to sum to one over the keys. The paper does not state $C$: we take 1, and the code's $1/\sqrt{d+1}$ (in the
# figures). $(1 + Cx)^2$ and $1 + \tanh Cx$ learn the pair of heads; $1 + Cx$ seldom does, unless $C$ is small.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Heat maps of two heads with the activations 1+x, (1+x) squared, 1+tanh(x)."}}
labels = {"affine": "1 + Cx", "square": "(1 + Cx)²", "tanh": "1 + tanh Cx"}
scaled, small = (
    results(name, profile, device)
    for name in ("activations_coded", "activations_small")
)
paired_small = with_both_signs(small)
shown = {labels[n]: scaled.group(n) for n in labels}
style.show(
    figures_4_1_and_4_2.plot_activations(shown, scale=code_scale(d)), of=[scaled]
)
plain = figures_4_1_and_4_2.read_activations(paired, 1.0)
scaled_down = figures_4_1_and_4_2.read_activations(
    with_both_signs(scaled), code_scale(d)
)
c03, c01 = (read_heads(paired_small.group(f"affine_c{c}"), c) for c in (0.3, 0.1))
by_c = {"text": (plain, heads[2]), "code": (scaled_down, coded[2])}
smaller = {
    "c0.3": ({**plain, "affine": c03}, heads[2]),
    "c0.1": ({**plain, "affine": c01}, heads[2]),
}
seed_sweep = {
    "c0.1": read_heads(
        results("seeds_affine", profile, device).group("affine_c0.1"), 0.1
    )
}
starts = len(study["isotropic"].groups[0].runs)
record.all(figures_4_1_and_4_2.activation_records(by_c | smaller, starts, seed_sweep))
# at step 0 there is no loss yet
worst = [float(np.nanmax(of["affine/loss"])) for of in (iso, scaled)]
record("fig4.2/affine/worst_loss", worst)

# %% [markdown]
# *One run of each: with $(1 + Cx)^2$ and $1 + \tanh Cx$ the two heads are an opposite pair, with $1 + Cx$ they are not (paper: Figure 4.2). $KQ$ above, each function on a colour scale of its
# own; $OV$ below, all on one; the published code's $C$.*

# %% tags=["remove-input"]
record.verdicts("fig4.2")

# %% [markdown]
# With $1 + Cx$ weights may be negative, and their sum may pass through zero. For such a prompt the prediction is arbitrarily large: the training loss reaches
# {glue:text}`fig4.2/affine/worst_loss` (with $C = 1$, and with the code's). The smaller $C$, the more runs end with the pattern, of {glue:text}`runs/seeds` starts for each $C$ and {glue:text}`census/runs` for the smallest:
#
# | *1 + Cx* with | *C* = 1 | the code's *C* | *C* = 0.3 | *C* = 0.1 |
# |---|---|---|---|---|
# | runs with the pattern | {glue:text}`fig4.2/text/affine/formed` | {glue:text}`fig4.2/code/affine/formed` | {glue:text}`fig4.2/c0.3/affine/formed` | {glue:text}`fig4.2/c0.1/affine/formed` |

# %% tags=["hide-input"] mystnb={"image": {"alt": "gamma and mu against the training step for softmax and three other activations, scores as coded."}}
shown = {"softmax": coded[2], **{labels[n]: h for n, h in scaled_down.items()}}
style.show(figures_4_1_and_4_2.plot_activation_dynamics(shown), of=[iso, scaled])
record.all(figures_4_1_and_4_2.dynamics_records(by_c))
many = theory.sample_prompts(65_536 if paper else 2048, d, L, s2, seed=5)
steps = figures_4_1_and_4_2.compare(paired, many, eta)
record.all(figures_4_1_and_4_2.step_records(steps, {"softmax": heads[2], **plain}, eta))

# %% [markdown]
# *Of three substitutes for the exponential, $1 + \tanh Cx$ ends nearest to softmax in its sum of $\mu$; $1 + Cx$ settles late, if at all (paper: Figure 4.2). Scores as coded; medians over the
# seeds that end as a pair.*

# %% tags=["remove-input"]
record.verdicts("fig4.2-dynamics", "activation-gd", "q-activation-gd")

# %% [markdown]
# The last run with the square to become a pair does so at step {glue:text}`fig4.2/code/square_pair`. Are these debiased gradient steps, too? Then their error could not fall below that of
# the best debiased step, of rate {glue:text}`activation/eta_star`, and their rate $2 C_f |\omega| |\mu|$ would be that one. For softmax this is so. The square and $1 + \tanh$ do slightly better than
# any such step can, and their rates are larger.
#
# | Two heads, $C = 1$, each seed | softmax | square | 1 + tanh |
# |---|---|---|---|
# | error above that of the best debiased step | {glue:text}`activation/softmax/excess` | {glue:text}`activation/square/excess` | {glue:text}`activation/tanh/excess` |
# | effective rate | {glue:text}`activation/softmax/rate` | {glue:text}`activation/square/rate` | {glue:text}`activation/tanh/rate` |
#
# Yet they hardly differ: debiased gradient descent leaves {glue:text}`activation/unlike_debiased` of their variance unexplained (softmax, square, $1 + \tanh$), vanilla gradient descent
# {glue:text}`activation/unlike_vanilla`.

# %% [markdown]
# ## What to take away
# Two numbers all but describe a head, and a pair of heads makes one step of gradient descent on the prompt's examples. Remember the pattern rather than its numbers. Along the solution manifold the
# loss is nearly flat, and where on it a run comes to rest is set by the noise of its training, learning rate over root of batch size. The model works at other lengths because it divides by the
# current length, as linear attention can too. Without noise $\gamma$ should end at the minimum of the true loss, {glue:text}`minimiser/gamma`, but even with a falling rate training stops on the
# way; on the approximate loss it never stops falling.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Exercises
# The first two can be done on paper. The solutions run with this chapter and check their own answers.
#
# **1. What a pair cannot see.** Add the same number $c$ to every response $y_\ell$ of a prompt. Which answers change, and by how much: that of one head, of a pair $(\gamma, -\gamma)$, $(\mu, -\mu)$, of
# vanilla and of debiased gradient descent? And if one vector $a$ is added to every covariate $x_\ell$, but not to $x_q$?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
some = theory.sample_prompts(500, d, L, s2, seed=7)
answer = {
    "one head": lambda x, y: predictors.softmax_predictor([0.5], [2.0], x, y, some.x_q),
    "pair": lambda x, y: predictors.softmax_predictor(
        [0.1, -0.1], [4.0, -4.0], x, y, some.x_q
    ),
    "vanilla": lambda x, y: theory.vanilla_gd(0.8, x, y, some.x_q),
    "debiased": lambda x, y: theory.debiased_gd(0.8, x, y, some.x_q),
}
for who, f in answer.items():  # c = 10, and every entry of a is 3
    by_c, by_a = (
        f(some.x, some.y + 10) - f(some.x, some.y),
        f(some.x + 3, some.y) - f(some.x, some.y),
    )
    print(
        f"{who} moves by at most {np.abs(by_c).max():.1f} with c and {np.abs(by_a).max():.1f} with a"
    )
    # A head's weights sum to 1, so it reads mu c more: 20 here. In a pair the mu sum to zero. A vector adds a^T x_q to every score,
    # which no softmax sees. Vanilla gradient descent sees both; centring makes it as blind as the pair.
    assert np.allclose(
        by_c, {"one head": 20, "pair": 0, "vanilla": by_c, "debiased": 0}[who]
    )
    assert (np.abs([by_a, by_c - by_c.mean()]).max() > 1) == (who == "vanilla")

# %% [markdown]
# **2. The best rate.** For debiased gradient descent the best rate is $\eta^* = \bigl(1 + (1 + \sigma^2)\, d / L\bigr)^{-1}$. Derive that of vanilla gradient descent. (With $\hat\beta = \frac{1}{L}
# \sum_\ell y_\ell x_\ell$ the error is $1 + \sigma^2 - 2 \eta + \eta^2\, \mathbb{E} |\hat\beta|^2$.) By what order in $1/L$ do the two differ?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
for length in (10, L, 1000):
    rate = 1 / (
        1 + (1 + (1 + s2) * d) / length
    )  # the answer: one more 1/L in the bracket than in eta*
    square, linear, _ = np.polyfit(
        [0, 1, 2], theory.vanilla_gd_error([0, 1, 2], d, length, s2), 2
    )
    print(
        f"L = {length}: best rate {-linear / square / 2:.4f}, eta* {loss.eta_star(d, length, s2):.4f}"
    )
    assert np.isclose(rate, -linear / square / 2)
    assert 0 < loss.eta_star(d, length, s2) - rate < 1 / length

# %% [markdown]
# **3. A better difference quotient.** A pair is the central difference of one function of $\omega$, and debiased gradient descent is its derivative at 0; hence the gap of order $\gamma^2$. What order
# has a pair with unequal scales, $\omega = (\gamma, -2\gamma)$? Find $a$ and $b$ so that four heads with $\omega = (\gamma, -\gamma, 2\gamma, -2\gamma)$ and $\mu = (a, -a, b, -b) / \gamma$ come
# nearer than any pair.

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
gammas, b = np.geomspace(0.01, 0.1, 5), -eta / 12
a = -8 * b  # first order: 2 (a + 2 b) = eta; third order: a + 8 b = 0
step = theory.debiased_gd(eta, some.x, some.y, some.x_q)
for order, omega, mu in (
    (2, [1, -1], [eta / 2, -eta / 2]),  # the central difference
    (
        1,
        [1, -2],
        [eta / 3, -eta / 3],
    ),  # zero sum and the right rate, but unequal scales: a lopsided one
    (4, [1, -1, 2, -2], [a, -a, b, -b]),  # the difference of five points
):
    pairs = [(g * np.array(omega), np.array(mu) / g) for g in gammas]
    made = np.array(
        [
            predictors.softmax_predictor(*pair, some.x, some.y, some.x_q)
            for pair in pairs
        ]
    )
    slope = float(predictors.loglog_slope(gammas, np.abs(made - step).mean(axis=1)))
    print(f"omega = gamma times {omega}: gap of order {slope:.2f}")
    assert abs(slope - order) < 0.1

# %% [markdown]
# **4. Which starts end one-sided?** Near zero the loss is $1 + \sigma^2 - 2 \mu^\top \omega + \dots$, so each head grows along $\omega_h + \mu_h$. With what chance do $H$ small random heads all start
# towards one side? Train two heads by gradient descent on the approximate loss from 200 starts of scale 0.05: which of them end one-sided, and at which loss? Then try the scale 0.5, and three heads.

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
omega, mu = dynamics.sample_initial(200, 2, 0.05, seed=2)
end = dynamics.simulate(omega, mu, 0.05, [4000], d=d, L=L, noise_var=s2)
same = (
    np.sign(omega + mu).sum(axis=1) != 0
)  # both heads start towards one side: chance 2^(1 - H) for H heads
alone = circuits.one_sided(end.omega[-1], end.mu[-1])
best = loss.single_head_approx(d, L, s2).loss
print(
    f"start to one side: {same.mean():.0%}; end so: {alone[same].mean():.0%}, of the others {alone[~same].mean():.0%}"
)
# Heads of one sign are one head written twice:
print(
    f"largest loss of one-sided ends {end.loss[-1][alone].max():.4f}, loss of the best single head {best:.4f}"
)
assert abs(same.mean() - 0.5) < 0.1
assert alone[same].mean() > 0.6 > 0 == alone[~same].sum()
assert np.allclose(end.loss[-1][alone], best, atol=1e-6)

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Errata
# Slips of the paper that leave its story as it is. For the first two we computed what they change.
#
# - **The mask.** The definition masks causally, so that the query attends to itself. The closed form of $\hat y_q$, which this chapter follows, has no query among the keys. Their predictions differ.
# - **Theorem 1's space.** It asks for $\min\{|\mathcal{H}_+|, |\mathcal{H}_-|\} > 1$, two heads of each sign. Read $\ge 1$, which takes in the two-head model.
# - **$\mathscr{S}^*$.** The theorem uses a set that the text does not define. Read $\mathscr{S}_\gamma$.
# - **Debiased gradient descent.** The formula of Key Finding 3 is one term for every example. Read its sum over $\ell$.
# - **Symbols.** The attention scores need $KQ\, z_q$, not $KQ\, x_q$; $(\omega, \mu)$ are $H$ numbers each; a sum over $[N]$ runs over the heads $[H]$.
# - **Figures.** Two are numbered 4.2, image files return under a second number (that of 2.5 under 4.1), and the early patterns are those of Figure 2.6, not 2.5.

# %% tags=["hide-input"]
record.all(theorem_1.errata_records(example, heads[2]))
record.verdicts("errata")

# %% [markdown]
# ## Every claim

# %% tags=["hide-input"]
record.table()
