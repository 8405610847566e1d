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
# # When In-Context Learning Implements Gradient Descent
#
# *A reproduction of Nagy, "When In-Context Learning Implements Gradient Descent" {cite}`nagy2026`.*
#
# A layer of linear attention can be written down whose answer is exactly one step of gradient descent on the examples in its prompt. The paper starts from that identity and proves
# thirty small statements about it. Then it asks: do *trained* models descend like this, small ones and published language models?
#
# **What came out.** A layer of linear attention can make an exact gradient step. On covariates of equal variance training finds one; with unequal variances it leaves [those of small
# variance](#what-training-finds-section-92) unlearned. The theorems hold, and some sentences around them say more than was proved. The paper's own trainings (section 9) do not name the optimiser,
# the rate, the kind of attention or the length. Whether more layers hurt depends on these. (All letters: [Notation and glossary](../book/notation.md).)

# %% tags=["parameters", "remove-cell"]
profile = "paper"
device = "auto"

# %% tags=["hide-input"]
import numpy as np
from IPython.display import display

from iclbook.claims import Recorder
from iclbook.drawing import style
from iclbook.drawing.diagram import show_attention
from iclbook.papers.nagy2026 import (
    arithmetic,
    common,
    construction,
    figure_1,
    ladder,
    ladder_figures,
    pretrained,
    results,
    section_5,
    section_9_1,
    section_9_2,
    section_9_5,
    section_9_5_1,
    section_9_6,
    solver,
    theorems,
)
from iclbook.papers.nagy2026.studies import studies

style.use()
paper = profile == "paper"

record = Recorder("nagy2026", profile)
study = studies(profile)
runs = {name: results(name, profile, device) for name in study}
record("runs/minutes", sum(r.provenance["seconds"] for r in runs.values()) / 60)

# %% [markdown]
# ## Attention that is a gradient step
#
# The construction of von Oswald and others (*Transformers Learn In-Context by Gradient Descent*, 2023) gives an attention layer these weights: queries and keys read $x$, values read the
# error $W_0 x - y$ of a linear model with weights $W_0$, and the output is scaled by the step size $\eta$. The answer is kept in the query's entry for a response. It starts at $-W_0 x_q$; after one layer it is $-W x_q$, with $W$ one gradient step away from $W_0$. The entries of the
# context hold the new errors, so the next layer makes the next step. The paper proves the case of one dimension and sums over several, but never builds the matrices. Here they are, compared with
# gradient descent in double precision.

# %% tags=["hide-input"]
record.all(construction.records())
record.verdict("nagy2026/linear-attention")

# %% [markdown]
# From $W_0 = 0$, with values and answer turned in sign:

# %% tags=["remove-input"]
show_attention(
    softmax=False,
    tokens=(r"(x_i, y_i)", "An example of the prompt."),
    scores=(r"\eta\, x_i^\top x_q", "How well an example fits the query."),
    weights=(r"\eta\, x_i^\top x_q / n", "The scores themselves, of either sign."),
    values=(r"y_i", "From zero, the error is the response."),
    answer=(r"\hat y", "One gradient step, read at the query."),
)

# %% [markdown]
# In code, linear attention is two lines, and with these weights a gradient step:

# %%
import torch


def linear_attention(Z, x_q, KQ, OV):  # (L, d + 1), (d,), (d + 1, d + 1), (d + 1,)
    z_q = torch.cat([x_q, torch.zeros(1)])
    return (Z @ KQ @ z_q) @ (Z @ OV) / len(Z)  # mean of scores times values


rng, d, L, eta = torch.Generator().manual_seed(0), 5, 20, 0.7
X, x_q, w = (
    torch.randn(L, d, generator=rng),
    torch.randn(d, generator=rng),
    torch.randn(d, generator=rng),
)
y = X @ w
KQ, OV = torch.zeros(d + 1, d + 1), torch.zeros(d + 1)
KQ[:d, :d], OV[d] = eta * torch.eye(d), 1.0  # scores eta x . x_q, values y
Z = torch.cat([X, y[:, None]], 1)
step = eta * (X.T @ y) / L  # descent from 0 on the mean of (y - w . x)^2 / 2
assert torch.isclose(linear_attention(Z, x_q, KQ, OV), step @ x_q, atol=1e-5)

# %% [markdown]
# Does training find these weights? On covariates of equal variance it does, in seconds, from random weights. A trained layer answers nearly $\frac1L \sum_\ell y_\ell x_\ell^\top G x_q$, and the
# matrix $G$ is its *gain*: in the construction, $\eta I$.

# %% mystnb={"image": {"alt": "Left: loss along training falls to the dotted line of the best gradient step. Right: the trained matrix, five equal entries on the diagonal and zeros beside it."}} tags=["hero"]
from iclbook.models import Attention
from iclbook.tasks import LinearRegression
from iclbook.training.one_run import train

n_heads = 1  # change me: 4
history = train(
    Attention,
    LinearRegression(d, L, noise_var=0.0),
    n_heads=n_heads,
    activation="linear",
    steps=2000,
    learning_rate=3e-3,
)
KQ, OV = history.model.circuits().values()  # a matrix and a row for each head
answer = sum(linear_attention(Z, x_q, kq, ov[0]) for kq, ov in zip(KQ, OV, strict=True))
assert torch.isclose(answer, history.model(Z[..., None], x_q[:, None]), atol=1e-4)
gain = (OV[:, 0, d, None, None] * KQ[:, :d, :d]).sum(0)

best = common.best_gain([1] * d, L)
fig, axes = style.figure(2, height=2.9, width_ratios=(1.6, 1))
axes[0].plot(history.steps, history.loss, label="trained layer")
style.theory_line(
    axes[0],
    (0, 2000),
    (common.expected_error([1] * d, L, best) / d,) * 2,
    label="best gradient step",
)
axes[0].set(xlabel="training step", ylabel="squared error", ylim=(0, None))
axes[0].legend()
style.heatmap(axes[1], gain.numpy(), annotate=".2f")
axes[1].set_title(f"learned gain (best: {best[0]:.2f} $I$)")
style.show()

# %% [markdown]
# *Training finds the gradient step: the error falls to the least that one step can have (dotted), and the matrix that it learns is nearly a multiple of the identity.*

# %% [markdown]
# ## The synthetic probe (the paper's Figure 1)
#
# The probe is a regression with 20 examples in five dimensions. The matrix $X^\top X$ of its covariates has the eigenvalues $\lambda_1 < \dots < \lambda_5$. Along each eigenvector, a *channel*,
# the error shrinks by a factor of its own. What is left after one step, and after many? The paper steps by $\eta^* = 2/(\lambda_1 + \lambda_5)$.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Three panels: loss of scalar descent for four curvatures, squared error of five eigenchannels, compounded rates of 1 to 10 layers."}}
eigenvalues = figure_1.spectrum()
style.show(figure_1.figure(eigenvalues))
record.all(figure_1.records(eigenvalues))

# %% [markdown]
# *Descent (marks) follows the closed forms (dotted), and in (b) the smallest and the largest eigenvalue share the slowest rate (paper: Figure 1). (a) The loss for four curvatures $a$; (b) the error of five
# channels; (c) what 1 to 10 layers leave; crosses: printed.*

# %% tags=["remove-input"]
record.verdict("nagy2026/fig1")

# %% [markdown]
# Runs and closed forms agree to rounding. The paper's own caption of panel (b) says that the largest eigenvalue converges fastest; the panel does not show it. At $\eta^*$ its error shrinks by the
# *same* factor as the smallest's (Theorem D2). Both are the slowest of the five (rank {glue:text}`fig1/largest_rank`, where 1 is the fastest). With $\eta = 1/\lambda_5$ that caption would be right
# (rank {glue:text}`q-fig1b/rank_at_inverse`). The paper prints the two ends of the spectrum and not how it was drawn; the three eigenvalues between them are ours.
#
# Beyond $\eta^*$ large eigenvalues become the bottleneck; at $2/\lambda_{\max}$ they diverge.

# %% tags=["hide-input"]
figure_1.show_spectrum(few=not paper)

# %% [markdown]
# ## Softmax as a preconditioner (section 5)
#
# With softmax the weights $p_i$ are positive and sum to one, so an answer $\sum_i p_i y_i$ stays within the range of the targets. The paper then writes the *update* of a single weight $w$ as
# $\eta\,(b_p - a_p w)$, with $a_p$ and $b_p$ the averages of $x^2$ and $xy$ under the $p_i$: attention as a *preconditioner*, which rescales the gradient.
#
# A softmax head can compute that exactly, if its tokens carry the products $x^2$ and $xy$. Weight on examples of high curvature $x^2$ speeds descent up while
# $\eta a_p \le 1$, and slows it down beyond. It also moves the optimum, unless all examples lie on one line through the origin. Plain tokens $(x, y)$ carry no products. On those, softmax
# attention is a *kernel smoother*: it answers $\sum_i p_i y_i$, where a preconditioned step from $w = 0$ would answer $\eta x_q \sum_i p_i x_i y_i$. Even with the best $\eta$ for each data set,
# the step leaves {glue:text}`softmax-precond/plain_residual` of the squared answer unexplained (median over 200 data sets).

# %% tags=["hide-input"] mystnb={"image": {"alt": "Left: distance to the optimum along layers, uniform and concentrated attention, on a line and off it. Right: answers of softmax and linear attention on plain tokens."}}
style.show(section_5.figure())
record.all(section_5.records())

# %% [markdown]
# *With products in the tokens, concentrated attention descends faster where the examples lie on a line; off a line it stops at another point (paper: section 5). On plain tokens softmax stays within the range of
# the targets (grey), and linear attention leaves it.*

# %% tags=["remove-input"]
record.verdict("nagy2026/softmax-precond")

# %% [markdown]
# Off the line the concentrated head has reached the optimum under its *own* attention, not the least-squares $w^*$. The slider moves the inverse
# temperature $\beta$ of scores $\beta x_i^2$.

# %% tags=["hide-input"]
section_5.show_temperature(few=not paper)

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Heads restricted to bands (section 9.1)
#
# The model has one layer and four heads. Its covariates have four variances $\lambda$ from 10 down to 0.01, two covariates (a *band*) of each. If each head had a gain for its own band, one step
# could remove the error of all bands, which a single gain for all cannot (Theorem M3).
#
# The slider shows this with exact best gains.

# %% tags=["hide-input"]
section_9_1.show_gains(few=not paper)

# %% [markdown]
# Does such a mask help a trained model? The paper trains four versions once each: no mask; each head's keys see one band ("spectral"); each head's keys see two covariates drawn at random; all
# heads see the first band ("redundant"). Its three masked errors lie 1 to 4 % above the unmasked one, and it concludes that restricting the keys *hurts*. We train each with {glue:text}`9.1/seeds` seeds
# under {glue:text}`9.1/settings` settings: softmax or linear attention, Adam or plain gradient descent, several rates. As in the paper: width 32, four heads of width 8, 3,000 steps, batch 64. Ours:
# 16 examples, weights $w \sim N(0, I)$, no noise, PyTorch's initial weights.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Mean change of the error by three kinds of mask in every setting, with two standard errors; in the last row the printed changes."}}
by_mask = section_9_1.mask_runs(study["masks"], runs["masks"], runs["masks_more"])
style.show(section_9_1.figure(by_mask))
record.all(section_9_1.records(by_mask, study["masks"]))
record.verdicts("9.1-spectral", "9.1-random", "9.1-redundant", "9.1-worst")

# %% [markdown]
# *With softmax attention masks raise the error or leave it as it is; with linear attention the spectral and the random one mostly lower it (paper: section 9.1). Mean change with two standard errors, of
# {glue:text}`9.1/seeds` seeds or more and of {glue:text}`9.1/prompts` prompts; last row: the paper, from one seed.* So the kind of attention decides the sign. Verdicts rest on Adam at 0.001, with
# {glue:text}`9.1/seeds_judged` seeds of softmax attention. Redundant masks, not spectral ones, cost most there: {glue:text}`9.1/softmax/redundant_change` %,
# where the paper prints 1.7 %. The three printed changes are {glue:text}`q-unstated/one_seed` standard deviations of what one seed does (median over settings). (Standard errors of later sections are over seeds. They leave out the choice of 8,192 shared prompts, which would add
# {glue:text}`9.1/of_8192` % here.)

# %% [markdown]
# ## What training finds (section 9.2)
#
# The same model, with unrestricted heads, is trained for 20,000 steps. The paper follows the error with 16 examples, a "geometric contraction rate" $\rho_2$, and the "spectral
# alignment": the correlation of "learned dimension importance" with the inverse spectrum. It defines neither the rate nor the importance.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Error, rho_2 and spectral alignment against the training step for softmax and linear attention; crosses show the printed values."}}
trajectories = section_9_2.trajectories(study["alignment"], runs["alignment"])
style.show(section_9_2.figure(trajectories))
record.all(section_9_2.records(trajectories, study["alignment"]) | arithmetic.records())
record.verdicts("9.2-alignment", "9.2-rho2", "9.2-theory")

# %% [markdown]
# *Error and $\rho_2$ fall early and then hardly move, in print as well (crosses); the spectral alignment falls where the printed one climbs (paper: section 9.2). Means of {glue:text}`9.2/seeds`
# seeds under Adam; band: nine seeds of ten.* We read the importance of a covariate as its gain $G_{ii}$. Then the alignment rises in
# {glue:text}`9.2/gain/rising` of the {glue:text}`9.2/settings` settings (attention, optimiser, rate); with importance read as the norm of the covariate's keys, in {glue:text}`9.2/key/rising`. The
# next figure says why.
#
# We read $\rho_2$ as the factor by which the error falls *per example in the context*, from the slope of its logarithm. We chose this reading because it turns the printed errors into the printed
# $\rho_2$, so its
# agreement is no evidence. In the setting nearest to all printed errors and $\rho_2$, *{glue:text}`9.2/nearest`*, it is {glue:text}`9.2/slope/rho2_18k` at 18,000 steps (printed: 0.912), and the error
# {glue:text}`9.2/mse_18k` (printed: 5.8). The mean factor from no example to 16, another reading, is {glue:text}`9.2/ends/rho2_18k` there.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Trained gain of the covariates of each variance for every seed, beside the best one-layer gain and the inverse spectrum."}}
style.show(section_9_2.gains_figure(trajectories))

# %% [markdown]
# *For small variances training leaves the gain near zero, far below the best gain of one layer (long bars) and below the inverse spectrum (crosses; two lie beyond the axis; paper: section 9.2). Marks:
# seeds and the two covariates of a variance; short bars: their means.* Seeds with next to no gain even at $\lambda = 10$: {glue:text}`9.2/without_gain`. Their errors lie at most {glue:text}`9.2/without_gain_excess` above the
# mean, so they answer in a way that the gain does not show. The four covariates of large variance carry nearly all of the target's variance, and their trained gains come near the best ones. The other four carry a hundredth of it. The loss hardly
# depends on their gains, which stay near zero.
#
# The paper's table has a column "Theory": alignment 1, error 0.01, rate 0.450. No single layer of *linear* attention reaches it. The best one has error {glue:text}`9.2/best_error` with 16 examples, and
# {glue:text}`9.2/best_on_probes` ± {glue:text}`9.2/best_on_probes_se` on the prompts that trained models are measured on. Its gains correlate with the inverse spectrum at
# {glue:text}`9.2/best_alignment`: with finitely many examples the best gain levels off where the variance is small. For the rate we tried three readings: Theorem D2's rate, the least mean
# rate of the channels, and the least factor of the expected loss. None gives 0.450. The largest eigenvalue's share of the trace is {glue:text}`theory0450/largest_share`, but that is no rate.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Which models are these? (section 9.5)
#
# The paper compares a two-layer baseline with a four-layer "theory-guided" model "of equal parameter budget": 8,801 and 9,989 parameters. The counts say what the text does not. We tried
# {glue:text}`q-parameters/tried` combinations of usual choices (biases, layer norms, positions, MLPs, kinds of sink and scale): {glue:text}`q-parameters/baselines` baselines have the first count, and
# {glue:text}`q-parameters/both` combination has both. It has attention with biases, one layer norm per layer, no MLP, no positions, one *sink* (a learned token that can take attention), and in each layer a *layer scale* (a learned factor). We train that. Budgets differ by
# {glue:text}`q-parameters/excess`; with a deep model of width {glue:text}`q-parameters/nearest_width` they would be nearest to equal.
#
# The rest we choose, and where a choice may decide we train several *readings*. "4,000 random tasks" can mean a fixed set of 4,000 prompts, or that many new ones. We train both, dropout included,
# and the fixed set at two rates. Ours are 4,000 steps, batch 32, Adam and a weight of 0.01 for the orthogonality penalty. The task's weights have variance 1/4, which suits section 9.5.1. With 1
# the error printed there at $d = 16$ would lie below what 12 examples of 16 unknowns leave; with $1/d$ it would lie above the error of the answer 0. But section 9.5's "6.4 ×" and "19.5 × below
# the mean baseline" imply 0.295 at $d = 4$, if that baseline is the answer 0. That is the fourth reading. Printed errors are compared jointly with where one more seed is expected: a prediction
# region for their logarithms. The headline errors 0.184 and 0.061 have no stated length; we read them as at 12 examples.

# %% tags=["hide-input"]
record.all(section_9_5.parameter_records(study["guided"]))
record.verdicts("q-parameters", "q-equal-budget")

# %% tags=["hide-input"] mystnb={"image": {"alt": "Error of the two-layer and of the guided model at 5, 8 and 12 examples under each reading, every seed; crosses show the printed values."}}
readings = section_9_5.guided_readings(study, runs)
style.show(section_9_5.figure(readings))
record.all(section_9_5.models_apart(readings))
for reading, measured in readings.items():
    record.all(section_9_5.records(reading, measured))

# %% [markdown]
# *The two-layer model's error falls more from 8 to 12 examples than the printed one (crosses, dashed; paper: section 9.5). Marks: seeds; bars: means.* All three errors of
# the two-layer model come out together in {glue:text}`9.5/baseline_readings` of the four readings, those of the guided model in {glue:text}`9.5/guided_readings`.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Attention to the sink and layer scale by layer, every seed, with the printed profiles."}}
style.show(section_9_5.layers_figure(readings))

# %% [markdown]
# *In no reading does attention to the sink grow with depth as printed (crosses); the layer scale depends on the learning rate (paper: section 9.5). Marks: seeds; bars: means.*

# %% tags=["remove-input"]
record.verdicts("9.5", "9.5-numbers")

# %% [markdown]
# ## Does depth hurt? (section 9.5.1)
#
# Without layer norm, the paper says, the deep model (*depth*) is worse than the shallow one (*baseline*) at every dimension, and three additions help in different measure: a sink, a layer scale, a
# penalty that keeps weights orthogonal. It prints means over six seeds, but no optimiser, no length of training and no number of examples. Ours: Adam at 0.001, batch 32, 12 examples, 2,000 steps.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Error of six variants at d = 4, 8, 16 after the whole training, every seed; crosses show the printed means and deviations."}}
by_dimension = {d: runs[f"ablation_d{d}"] for d in section_9_5_1.DIMENSIONS}
final = section_9_5_1.errors_after(1.0, by_dimension)
style.show(section_9_5_1.figure(final))
for reading, share in section_9_5_1.LENGTHS.items():
    errors = section_9_5_1.errors_after(share, by_dimension)
    record.all(section_9_5_1.records(reading, errors))

# %% [markdown]
# *At $d$ = 4 and 8 depth lowers the error, where the paper has it raised, and the additions change little (paper: section 9.5.1). Errors after the whole training. Marks: seeds; bars: means; crosses: printed means with deviations.*

# %% tags=["hide-input"] mystnb={"image": {"alt": "Error of baseline and depth along training at d = 4, 8, 16, with the printed errors of both."}}
grid = section_9_5_1.depth_grid(
    {d: study[f"ablation_d{d}"] for d in section_9_5_1.DIMENSIONS}, by_dimension
)
style.show(section_9_5_1.course_figure(grid))

# %% [markdown]
# *Depth learns later and ends lower at $d$ = 4 and 8; at 16 it is no better, in these runs a little worse (paper: section 9.5.1). Mean and range over seeds; dashed, in the same colours: printed.*

# %% tags=["remove-input"]
record.verdicts(
    "9.5.1-depth",
    "9.5.1-scale",
    "9.5.1-sink",
    "9.5.1-ortho",
    "9.5.1-full",
    "9.5.1-means",
)

# %% [markdown]
# The paper calls
# orthogonality "indistinguishable" from plain depth. That has to be shown: the effect must be smaller than half of the printed effect of the layer scale. At $d = 4$ the paper's deep model is worst beside its baseline. Ours changes the baseline's error by {glue:text}`9.5.1/s500/depth_change_4` after 500,
# {glue:text}`9.5.1/s1000/depth_change_4` after 1,000 and {glue:text}`9.5.1/s2000/depth_change_4` after 2,000 steps; where negative, depth *helps*.
#
# The next figure repeats the comparison over optimisers, rates and $d$: {glue:text}`q-depth/settings` settings, of which {glue:text}`q-depth/learning` have a baseline that learns in these 2,000 steps.
# {glue:text}`q-depth/diverged` of the {glue:text}`q-depth/pairs` deep runs in them diverge and count as hurt; lines are means over the rest. Adam at 0.001 has 20 seeds, the others 6.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Error of depth over that of the baseline after 500 and after 2,000 steps for each optimiser and rate; above 1 depth hurts; dashed: printed."}}
style.show(section_9_5_1.grid_figure(grid))
record.all(section_9_5_1.depth_records(grid))

# %% [markdown]
# *Whether depth hurts depends on the optimiser, the rate and the length of training (paper: section 9.5.1). Mean error of depth over that of the baseline, where the baseline learns.*

# %% tags=["remove-input"]
record.verdict("nagy2026/q-depth")

# %% [markdown]
# After 500
# steps depth hurts in {glue:text}`q-depth/early_hurt` of those {glue:text}`q-depth/learning` settings, after 2,000 in {glue:text}`q-depth/final_hurt`; at the end it hurts {glue:text}`q-depth/share` of seeds (settings
# counted alike). We did not vary the scale of the initial weights, the batch, or the fixed set of prompts.

# %% [markdown]
# ## Asking heads to differ (section 9.6)
#
# A regulariser penalises heads for reading the same covariates. The paper does not define it; ours is the mean cosine between the squared column norms of the heads' keys. Round 1 compares
# configurations, and round 2 repeats one of them over seeds (5 printed, {glue:text}`9.6/seeds` here). Round 3 uses a task in which every covariate counts alike, and an "oracle" whose heads are masked to
# bands. As in the paper: widths, heads, weights of the regulariser, and the steps of rounds 2 (5,000) and 3 (3,000). Ours: softmax attention, Adam at 0.001 and 0.003, 3,000 steps in round 1, batch
# 64, 16 examples, section 9.1's variances, $w \sim N(0, I)$. The variances of the paper's configuration *wide_spectrum* are not printed, so we take two sets:
#
# | Variances of *wide_spectrum* | printed baseline error from ours, standard deviations |
# |---|---|
# | 100 down to 0.0001 | {glue:text}`9.6/wide/base_z` |
# | those of section 9.1 (the same as the paper's configuration *small_medium*) | {glue:text}`9.6/same/base_z` |

# %% tags=["hide-input"] mystnb={"image": {"alt": "Improvement by the regulariser for each configuration and seed, a row each, and errors of round 3; crosses show the printed values."}}
diverse = section_9_6.diversity_runs(
    study["diversity"],
    runs["diversity"],
    study["diversity_wide"],
    runs["diversity_wide"],
)
balanced = section_9_6.balanced_runs(study["balanced"], runs["balanced"])
style.show(section_9_6.figure(diverse, balanced))
record.all(section_9_6.records(diverse))
record.all(section_9_6.balanced_records(balanced, diverse["round 2"].rates))
record.verdicts("9.6-round1", "9.6-round2", "9.6-round3", "9.6-oracle")

# %% [markdown]
# *In rounds 1 and 2 the improvements scatter around zero; in round 3 seeds end at several solutions, or basins (paper: section 9.6). Marks: seeds. Bars: in rounds 1 and 2 the typical seed (the Hodges-Lehmann
# estimate, which a few outliers hardly move), in round 3 the mean of each basin.*
# {glue:text}`9.6/bases_off` of the six printed baselines lie more than 2.8 standard deviations from ours at either rate and in either reading.
#
# In round 3 the printed baseline fits ours under Adam at {glue:text}`9.6/matched/rate`; at {glue:text}`9.6/other/rate` it is {glue:text}`9.6/other/base_z` standard deviations off, as training stops
# on a plateau there. So the two verdicts on round 3 are about the rate that fits, in per cent of a typical seed's error:
#
# | Round 3 | ours | printed |
# |---|---|---|
# | lower with the regulariser by | {glue:text}`9.6/matched/gain` | −0.8 |
# | higher with the oracle's masks by | {glue:text}`9.6/matched/oracle_change` | 3.2 |
#
# At the other rate, which no verdict judges, the regulariser helps {glue:text}`9.6/other/helped` of the seeds.
#
# Two rows of the paper's table have the same model and no regulariser in their baselines, and still print 2.70 and 1.13. The gap is {glue:text}`q-unstated/same_baseline` standard deviations over
# seeds, so the rows differ in something that is not stated.

# %% [markdown]
# ## Language models, and a ladder of our own (sections 8, 9.3 and 9.4)
#
# Half of the paper is about published models, whose weights are not part of this book. If they lie in a local folder, these commands measure them, one call a checkpoint:
#
#     hf download EleutherAI/pythia-160m --revision step4000 --local-dir pythia-160m/step4000
#     iclbook probe --model pythia-160m --revision step4000 --probe alignment --out probes/160m-4000-alignment.npz
#     iclbook run gradient_descent --probes probes
#
# `iclbook probe --plan --out probes` lists the calls that each claim on a published model still needs. The last command judges the claims whose models are all there, by rules written before we had
# any weights.
#
# **What the printed statistics can show.** Figures are the paper's.
#
# - **Figure 2.** *Surprisal*, minus the logarithm of the right token's probability, is fitted by a line over the layers, with $R^2 \approx 0.75$. A fall in only one middle layer of twelve has
#   $R^2 =$ {glue:text}`ladder/induction/one_jump_r2`, one in the last layer {glue:text}`ladder/induction/last_jump_r2`.
# - **Section 9.3.** *Causal heads* are those whose effect lies above its 95th percentile: always {glue:text}`ladder/heads/of_144` of 144.
# - **Figure 7.** Over seven models early convergence has no significant correlation with skill at other tasks (0.59 at most), a "robust null". Were the true correlation 0.59, a study of seven models would
#   find it with probability {glue:text}`forecast/power_7`. Its confidence interval is {glue:text}`forecast/width_7` wide, and a line through
#   seven such models predicts new ones with a median skill of {glue:text}`forecast/skill_7`. So "robust null" is no finding.
# - **Section 8.4.** From the slope $\alpha$ of updates on residuals the paper predicts $\rho = 1 - \alpha$, what a layer leaves of the error. In three models this agrees "within 2-11 %" with the
#   observed $\rho$, as any two numbers near 1 do. But $\alpha$ is off by {glue:text}`rho/error_of_alpha` %; the prediction $\rho = 1$ would be off by
#   {glue:text}`rho/error_of_no_contraction` %. Wrong assignments of the observed rates to the models that fit as well as the right one: {glue:text}`rho/better_assignments` of five.

# %% tags=["hide-input"]
published = pretrained.records()
record.all(ladder.power_values() | published)
record.verdicts(
    "q-one-jump", "q-causal-heads", "q-forecast-power", "q-rho-own", "q-published-nulls"
)
pretrained.table()

# %% tags=["remove-input"] mystnb={"image": {"alt": "Four panels of printed values as crosses: ratios of sinks at three steps, three pairs of rates, error reductions of five models from peak to end, three correlations."}}
style.show(ladder_figures.printed_only(published))

# %% [markdown]
# *What the paper prints of published models (paper: Figures 4 to 7). Our own values are missing: they need the models' weights. Arrows: from the peak to the end of training.*

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### A ladder of our own
#
# In place of the published models stands a ladder: eleven small models built like the published Pythia models, from 2 to 6 layers, trained on text, repeated blocks, lists and lines of in-context
# regression. Nine of them have a copy: same size, same start, no regression in its corpus. What a copy shows cannot be in-context regression. The models do what the paper reads as descent, and
# noise does part of it.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Error of the estimate and surprisal of the right token by depth for every model of the ladder, copies without regression dashed."}}
get = ladder.trained(profile, device)
style.show(ladder_figures.layers(get))
record.all(ladder.records(get))

# %% [markdown]
# *The estimate comes nearer to the answer in the last layers, but not in models that never saw a regression (grey). The surprisal of a repeated token falls with depth as well (paper: Figure 2).*

# %% tags=["remove-input"]
record.verdicts("q-ladder-alignment", "q-ladder-twin", "q-ladder-law")

# %% [markdown]
# This is what the paper reads as descent: with depth the estimate comes nearer to the answer, by {glue:text}`ladder/alignment/reduction` digits on average, and updates point along the residual. Models
# that never saw a regression do no more of it than noise does. But is it descent on the examples? With the answers in the context shuffled, small models come nearly as near. Few slopes occur, so the mean and the
# spread of the answers nearly determine the law. Deeper models use more of which answer belongs to which number.

# %% tags=["hide-input"]
ladder_figures.show_read_out(get, few=not paper)

# %% tags=["hide-input"] mystnb={"image": {"alt": "Sign agreement of every model of the ladder beside that of noise; the printed range shaded."}}
style.show(ladder_figures.signs(get))

# %% [markdown]
# *Most trained models (discs) agree with the residual's sign more often than noise (bars), but noise exceeds one half as well. A bar: forty draws with the mean and the deviation of a model's own read-outs.*
# Update and residual contain the same estimate with opposite signs. So noise agrees in {glue:text}`ladder/nulls/noise_signs` of updates, not in one half; trained models are above it on average.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Rate predicted by the slope against the rate observed, a disc for every model of the ladder; three printed pairs as crosses near the diagonal."}}
style.show(ladder_figures.rates(get))
ladder_figures.table(get)

# %% [markdown]
# *Rates near one agree by themselves, in print as well (crosses; paper: Figure 5); where they are farther from one, predicted and observed rates part. A disc is a model of the ladder; dotted: equal rates.*

# %% tags=["remove-input"]
record.verdicts("q-ladder-rates", "q-ladder-curvature")

# %% [markdown]
# Descent with one rate shrinks a residual faster where the context's curvature
# $\sum_i x_i^2$ is larger. The paper's probe had too narrow a range to see this. Here the correlation over prompts is {glue:text}`ladder/alignment/curvature`, where descent has minus one.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Error reduction and induction accuracy over training, every model of the ladder; copies without regression dashed."}}
style.show(ladder_figures.development(get))

# %% [markdown]
# *Copying comes before regression: the error reduction rises after half of the repeated tokens are predicted right (dotted: the first step at which the mean of all models is past one half). Shaded: the printed ranges of valleys and of peaks.*

# %% tags=["remove-input"]
record.verdicts("q-ladder-emergence", "q-ladder-truncation")

# %% [markdown]
# The paper reads a fall of the reduction before its rise, a valley, as a phase of learning to descend. Whether our models show one depends on the draw; copies that never saw a regression show it
# as well (difference: {glue:text}`ladder/emergence/valley_shared` digits). It belongs to the prior over digits. Cutting directions out of the embedding costs answers, but
# the last directions cost less than random ones.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## The thirty statements
#
# The paper's theory is about one weight $w$. Its loss on the examples of the prompt is a parabola, $L(w) = a w^2 - 2 b w + c$, with the curvature $a = \sum_i x_i^2$, with
# $b = \sum_i x_i y_i$ and $c = \sum_i y_i^2$. Its gradient is $g = aw - b$ (a factor 2 goes into the step size), and one step leads to $w - \eta g$. Thirty theorems follow, A1
# to MN3; the last three sum over $d$ such weights, one for each channel. The paper reports that a proof checker of its own verified them and that Lean 4 accepts the export;
# it contains neither. Here each is a *formal statement*, decided twice: {glue:text}`theory/thirty_proved` of {glue:text}`theory/thirty` are proved.
#
# - The solver z3 decides it over the exact real numbers. Polynomial statements are decidable: it finds a proof, or that there is a counterexample; sympy computes the
#   one that we list again in exact fractions. Statements on any number of channels are split into first case and step of an induction.
# - The folder `proofs` holds the same statements in Coq; `make proofs` compiles them and prints the axioms each rests on.
#
# Statements whose hypotheses contradict each other, so that they prove anything: {glue:text}`theory/thirty_vacuous`. Inequalities: {glue:text}`theory/inequalities`.

# %% tags=["hide-input"]
record.all(theorems.records())
theorems.thirty_table()

# %% [markdown]
# Most are one line of school algebra (A4 says that a square is not negative); the paper calls them "deliberately atomic". The names of a few promise more. Does the proof of V1, "a constructed
# identity", use its construction $\kappa = v_o q_k$? The solver says {glue:text}`theory/V1/uses_gains`: *any* number in its place does. Does A7 use that $\rho^2$ is $(1 - \eta a)^2$? The solver says
# {glue:text}`theory/A7/uses_rate`. The last column lists hypotheses that can be dropped, each on its own.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## What the sentences around the statements say
#
# Each theorem comes in a paragraph that says more than its formula, and later sections rely on the paragraph. So the sentences are decided as well.
# {glue:text}`theory/flagged_printed` of them fail as printed, and {glue:text}`theory/flagged_readings` more in the stricter one of two readings.
# [Errata](#errata) lists them all, each with a counterexample and, if there is one, a hypothesis that repairs it. A verdict has the formal statement as one part and the printed sentence as another.
# These sentences matter for the story:
#
# - **B6**, "softmax concentration amplifies the descent signal": not always. With the softmax gradient of two real examples, $b_p - a_p w$, the signal can vanish where the
#   linear one does not, because concentration moves the optimum too. It holds when both examples lie on one line *through the origin*; section 5.2's "all pairs lie on one
#   line" is not enough.
# - **B7**, "attention can tune $\eta a_p = 1$": not for every prompt. A weighted mean stays between the smallest and the largest $x_i^2$. If no $\eta x_i^2$ is on the other
#   side of 1, no weights reach it.
# - **M3**, "residual contraction": the factor is not zero, but if one eigenvalue is more than twice the other, channel 2 grows.
# - **D2** holds. It proves that *both ends of the spectrum shrink alike*, the opposite of the caption of [Figure 1b](#the-synthetic-probe-the-papers-figure-1).

# %% tags=["remove-input"]
record.verdicts("B6", "B7", "M3", "D2")

# %% [markdown]
# ## What to take away
#
# A layer of linear attention can make a step of gradient descent, exactly. Softmax attention on plain tokens is another thing, a kernel smoother. A penalty on heads that read alike brings a typical seed
# little in rounds 1 and 2, as the paper found; in round 3 it depends on the rate. Whether depth hurts depends on the optimiser, the rate and the length of training: on the settings that learn, in
# {glue:text}`q-depth/final_hurt` of {glue:text}`q-depth/learning` at the end and in {glue:text}`q-depth/early_hurt` after a quarter of training.
# In language models that have seen regression the estimate comes nearer to the answer layer by layer, which the paper reads as descent. In copies that have not, it hardly does. But noisy read-outs,
# too, move towards the answer more often than not, and whether the models descend is [another question](crossing.py#rungs-of-the-ladder). What published models would add is open here, and so is
# every unstated choice that we did not vary.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Exercises
#
# Each can be solved with what this chapter imports. The solutions run with the chapter, and their last lines would stop it if they were wrong.

# %% [markdown]
# **1. One example, on paper.** A prompt holds the single example $x_1 = 1.5$, $y_1 = -2$, and the layer starts at $W_0 = 0$. Which step size $\eta$ makes it answer exactly $y_1$
# when it is asked at $x_1$? What does it then answer at $2 x_1$, and from which $\eta$ on is one step worse than none?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
x, y, start = np.array([[1.5]]), np.array([[-2.0]]), np.zeros((1, 1))
eta = (
    1 / x[0, 0] ** 2
)  # the curvature is a = x_1^2, and a step multiplies the error by 1 - eta a: zero here
answers, error = {}, {}
for factor in (0.0, 1.0, 1.99, 2.01):
    layer = construction.construct(1, 1, factor * eta)
    answers[factor] = construction.layer_answers(
        layer, start, x, y, np.array([[1.5], [3.0]])
    )[:, 0]
    error[factor] = (answers[factor][0] + 2) ** 2
    print(
        f"step {factor:4} / x_1^2: answers",
        answers[factor].round(3) + 0.0,
        f"squared error {error[factor]:.3f}",
    )
assert np.allclose(
    answers[1.0], [-2, -4]
)  # exact at x_1, and, being linear, twice that at 2 x_1
assert (
    error[1.99] < error[0.0] < error[2.01]
)  # from 2 / x_1^2 on a step is worse than none (Theorem A5)

# %% [markdown]
# **2. A theorem of your own.** By M3 no single gain $\kappa$ brings two channels with $\lambda_1 \ne \lambda_2$ to their optimum in one layer. Do two layers, each with a gain of its
# own? Do two layers that share one gain? Write both down in the form of this chapter's statements, and let the solver decide.

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
# A channel is done when the product of its factors is 0.
own = solver.Statement(
    given=("p*l = 1", "q*m = 1"),
    then="(1 - p*l)*(1 - q*l) = 0 and (1 - p*m)*(1 - q*m) = 0",
)
shared = solver.Statement(
    given=("l != m",), then="not ((1 - p*l)^2 = 0 and (1 - p*m)^2 = 0)"
)
words = [solver.ask(statement) for statement in (own, shared, shared.without("l != m"))]
print(
    "own gains: {}; one gain: {}; one gain, equal eigenvalues allowed: {}".format(
        *words
    )
)
assert words == ["proved", "proved", "refuted"]

# %% [markdown]
# **3. Layers that differ.** At condition number $\kappa = 120$ ten equal layers leave most of the worst channel's error. Let every layer have a step of its own. Which ten steps are
# best if the eigenvalues may lie anywhere between 1 and $\kappa$, and how much is left? (Look for the polynomial of degree ten that is 1 at 0 and small from 1 to $\kappa$.)

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
kappa, layers = 120.0, 10
spectrum = np.linspace(1, kappa, 20_001)
equal = (
    figure_1.contraction_factors(spectrum, figure_1.balanced_step(spectrum)) ** layers
).max()
# Chebyshev's polynomial is the smallest; the steps are the inverses of its zeros, moved to [1, kappa].
zeros = (kappa + 1) / 2 + (kappa - 1) / 2 * np.cos(
    np.pi * (np.arange(layers) + 0.5) / layers
)
own = np.prod(
    [figure_1.contraction_factors(spectrum, 1 / zero) for zero in zeros], axis=0
).max()
print(
    f"worst squared error left by ten equal layers: {equal:.2f}, by ten with steps of their own: {own:.3f}"
)
# The same steps as attention layers, on a prompt with five eigenvalues from 1 to kappa, asked at the unit vectors.
x, w = (
    figure_1.design(np.geomspace(1, kappa, 5), 20),
    np.array([1.0, -1.0, 2.0, 0.5, -2.0]),
)
tokens = np.vstack([np.column_stack([x, x @ w]), np.eye(5, 6)])
for zero in zeros:
    tokens = construction.construct(5, 1, 1 / zero)(tokens, len(x))
assert np.isclose(
    own, np.cosh(layers * np.arccosh((kappa + 1) / (kappa - 1))) ** -2
)  # the closed form
assert ((-tokens[len(x) :, 5] - w) ** 2).sum() / (w**2).sum() < 1.001 * own < equal / 7

# %% [markdown]
# **4. A second softmax head.** On plain tokens one softmax head is a kernel smoother. Take two, with scores $\beta x_i x_q$ and $-\beta x_i x_q$, and let the layer answer
# $(\hat y_+ - \hat y_-) / 2\beta$. What is it as $\beta \to 0$: the gradient step of linear attention, or something else? (This is the pair of heads that
# [trained models find](linear_regression.py).)

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
data, queries = section_5.examples(20, noise=0.5, w_true=0.7), np.linspace(-2, 2, 41)
# To first order in beta a head's weights are (1 + beta (x_i - mean) x_q) / n: of the difference a centred step is left.
step, centred = (
    queries * np.mean(x * data.y) for x in (data.x, data.x - data.x.mean())
)
for beta in (1.0, 0.3, 0.1, 0.03):
    heads = [section_5.plain_answers(data, queries, sign * beta) for sign in (1, -1)]
    pair = (heads[0] - heads[1]) / (2 * beta)
    far, near = (
        np.abs(pair - target).max() / np.abs(target).max() for target in (step, centred)
    )
    print(
        f"beta {beta:4}: {far:.1%} away from the gradient step, {near:.1%} from that on centred covariates"
    )
assert near < min(0.001, far)
# one head alone tends to the mean response: what is left is beta times the centred step, to first order
left = heads[0] - data.y.mean()
assert np.abs(left - beta * centred).max() < 0.1 * np.abs(beta * centred).max()

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Errata
#
# Slips of the paper that leave its story as it is.
#
# First come sentences around the theorems. The solver decided them; the table says what repairs them, if anything does ("weakest": no weaker hypothesis would do).
#
# - **A7**, "$0 < \rho^2 < 1$ (equivalently $0 < \eta a < 2$)": at $\eta a = 1$ the rate is 0. Read $\rho^2 < 1$.
# - **B3** and **B4**, "the factor is smaller": where attention changes nothing, it is equal. Read "not larger".
# - **D3**, the rate $((a_2 - a_1)/(a_2 + a_1))^2$ is at most 1: at zero curvature it is $0/0$. And two equal positive eigenvalues converge without the "non-degenerate spread".
# - **V2**, "a positive gain" is in the stability window: a large one is not. Read $0 < \kappa \le 2/a$.
# - **MN1**, "a valid norm": the squared Frobenius norm is not a norm, its root is.

# %% tags=["remove-input"]
record.verdicts("V2", "MN1")
theorems.failing_table()

# %% [markdown]
# A paper that prints a percentage beside the two numbers it comes from can be checked without any model. We recomputed {glue:text}`arithmetic/items` such numbers and sentences, those on pretrained models
# included, with the interval that rounding of the printed inputs allows; {glue:text}`arithmetic/failing` do not follow. The one with most consequences is section 9.5.1's "recovering 28 %, 20 %, and 5 % of
# the depth penalty". The printed errors give {glue:text}`arithmetic/9.5.1/penalty` %; 28, 20 and 5 % are shares of the *whole error* of the deep model. And with seven models, Spearman's 0.89 has the exact
# $p$ of {glue:text}`spearman/exact_p` (printed: 0.007, by the large-sample formula).

# %% tags=["remove-input"]
record.verdict("nagy2026/arithmetic")
wrong, recomputed = arithmetic.tables()
display(wrong)
recomputed

# %% [markdown]
# Some tests that the paper could have made but did not print:
#
# | What it says | What follows |
# |---|---|
# | 9.2: the alignment 0.50 over eight covariates is "substantial" | $p =$ {glue:text}`arithmetic/9.2/alignment-p` |
# | 9.2: $\rho_2$ goes on falling | from 10,000 to 18,000 steps it changes by {glue:text}`arithmetic/9.2/since-10k` |
# | 9.2: 20,000 steps in 157 s; 9.1: 3,000 steps of four models in 110 s | a step of 9.2 took {glue:text}`arithmetic/9.2/seconds` of the time of one of 9.1, though it was measured more often |
# | 9.3: GPT-2 is "extremely sensitive" to layers 5 to 11 | {glue:text}`arithmetic/9.3/early` of the eight causal heads lie there |
# | 9.4: larger models learn more in context, $r = 0.58$ over six | $p =$ {glue:text}`arithmetic/9.4/p`; without the smallest model $r =$ {glue:text}`arithmetic/9.4/five` |
# | 9.6: +3.3 % was "seed-specific" | it is {glue:text}`arithmetic/9.6/seed-effect` deviations of one seed, by the printed $t$ of five |
# | 9.5.1: layer scale "helps most consistently" | Welch's $p =$ {glue:text}`arithmetic/9.5.1/scale-p` at $d = 4, 8, 16$ |

# %% [markdown]
# ## Every claim
#
# The studies of section 9 together took {glue:text}`runs/minutes` minutes of one processor core. Claims on published language models need their weights.

# %% tags=["hide-input"]
record.table()
