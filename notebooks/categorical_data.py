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
# # In-Context Learning for Categorical Data
#
# *A reproduction of "On Understanding Attention-Based In-Context Learning for Categorical Data" {cite}`wang2025`.*
#
# Linear regression in context is one attention layer: a gradient step on real numbers is a weighted sum of the examples. Categories are harder. The gradient of a cross-entropy contains the *expected*
# embedding under the current prediction, a nonlinear function that must be computed anew after every step. This paper builds a transformer that does it exactly: self-attention makes the step,
# cross-attention to the embeddings makes the expectation, and a second self-attention head wipes the old expectation away. Does a transformer with free weights find the same algorithm?
#
# We write out every matrix, check the construction to rounding, train both kinds of model on the paper's synthetic data, and test Theorem 2 by Monte Carlo. Numbers in the text are injected from the
# cells that measured them; a ledger's rules compute the verdicts, and one written after a first training says so. Misprints: [errata](#errata); letters: [notation](../book/notation.md).

# %% tags=["parameters"]
profile = "paper"
device = "auto"

# %% tags=["hide-input"]
import math
from functools import cache

import numpy as np
import torch

from iclbook.claims import Recorder
from iclbook.drawing import style
from iclbook.papers import wang2025
from iclbook.papers.wang2025 import (
    bounds,
    construction,
    descent,
    erasure,
    errata,
    figure_5_right,
    figure_7,
    figures_3_5,
    figures_8_9,
    figures_10_11,
    sliders,
    symmetry,
    theorem_2,
)
from iclbook.papers.wang2025.contexts import sample_contexts
from iclbook.papers.wang2025.studies import minutes
from iclbook.sliders import show_model
from iclbook.tasks.categorical import Anchors, Quadrants

record = Recorder("wang2025", profile)
style.use()
paper = profile == "paper"
# results of a study: stored at the paper profile, trained now at smoke
get = cache(lambda study: wang2025.results(study, profile, device))

# %% [markdown]
# ## A gradient step on a function
#
# A context shows $N$ pairs $(x_i, y_i)$, $y_i$ one of $C$ categories, and asks for the category of $x_{N+1}$. The data follow $p(y = c \mid x) = \mathrm{softmax}_c(w_c^\top f(x))$, with an embedding
# $w_c$ for each category and a hidden function $f(x) = A\psi(x) + b$ that changes from context to context. A gradient step on $A$ moves it at *every* point, by the features' kernel:
#
# $$ f(x_j) \leftarrow f(x_j) + \frac{\alpha}{N} \sum_{i=1}^N \bigl[w_{y_i} - \mathbb{E}(w \mid f(x_i))\bigr]\, \kappa(x_i, x_j). $$
#
# Four such steps are compared with autograd on $(A, b)$ for random features, labels and embeddings.

# %%
record.all(construction.functional_form())
record.verdict("wang2025/eq2-3")

# %% [markdown]
# ## The blocks
#
# A token carries $(x_i, w_{y_i}, E_i, f_i)$: covariates, label's embedding, scratch space for the expectation, and function. As printed, the first two never change; $E_i$ is right after each block.

# %% mystnb={"image": {"alt": "Three heat maps of the encoding with rows x, w, E, f and one column for each token: after each block only E and f have changed."}}
stream = construction.stream()
style.show(construction.plot_stream(stream))
record.all(construction.architecture())
record.verdict("wang2025/fig1-2")

# %% [markdown]
# *The encoding of one context at the input and after each of two blocks. Rows: the four parts, each on its own scale. Columns: examples, then the query, whose label slot is zero.*

# %% mystnb={"image": {"alt": "Six square matrices with blocks x, w, E, f; each has one or two blocks that are multiples of the identity and zeros elsewhere."}} tags=["hide-input"]
style.show(construction.plot_matrices(stream))

# %% [markdown]
# *The matrices of one block that are not the identity (appendix D), each divided by its largest entry. Nearly all entries are zeros.*
#
# Multiplied out, $K$ blocks must equal $K$ steps. They do, for five kernels and block by block (largest relative difference {glue:text}`construction/rbf` with RBF erasure); so does the model trained
# below, without the zeros ({glue:text}`construction/fast`). Both parts matter: no erasure head {glue:text}`construction/none`, query among the keys {glue:text}`construction/query`.

# %%
record.all(construction.construction())
record.verdict("wang2025/construction")

# %% [markdown]
# ## How exact is the erasure?
#
# The erasure head must attend to its own position. An RBF kernel with large $\lambda$ does. A softmax finds the largest $x_i^\top x_j$: its own, unless a longer vector points the same way.

# %% mystnb={"image": {"alt": "Attention that goes astray against lambda for four settings. Softmax head: curves level off, highest for d = 2, N = 100 and lowest for d = 10, N = 10. RBF head: all curves fall to zero."}}
curves = erasure.curves(200 if paper else 20)
style.show(erasure.plot_erasure(curves))
record.all(erasure.records(curves, 200 if paper else 20))
record.verdicts("erasure", "q-erasure")

# %% [markdown]
# *Attention that goes astray against $\lambda$, softmax head (left) and RBF head (right): half the absolute distance between a row of attention and the identity; zero is drawn at $10^{-12}$.* At
# $\lambda = 10^5$, the published code's value, softmax finds the own position for a share of {glue:text}`erasure/softmax_own_d10_N10` at $d = 10$, $N = 10$, of
# {glue:text}`erasure/softmax_own_d10_N125` at $N = 125$, and of {glue:text}`erasure/softmax_own_d2_N100` at $d = 2$, $N = 100$. With covariates of one length no other point has a larger inner
# product. If two examples have the *same* covariates, softmax shares its weight between them and still erases, for their expectations are equal; the RBF head gives each its whole weight and erases
# twice. Before the first block all expectations are equal, so two steps are exact whatever the head does; from the third on errors grow.

# %% mystnb={"image": {"alt": "Relative error of f against block three to six: it grows in both data sets, and is far larger for the quadrants than for appendix E's data."}}
drift = erasure.drift_records(contexts=128 if paper else 32)
style.show(erasure.plot_drift(drift["deep-erasure/quadrants"], drift["deep-erasure/anchors"]))
record.all(drift | erasure.trained_records(get("erased")))
record.verdict("wang2025/q-deep-erasure")

# %% [markdown]
# *Relative error of $f$ by block: the softmax head's limit of large $\lambda$ against exact steps, both with the data's own embeddings.* Test NLL of three blocks *trained* on the quadrants with the
# inexact head: {glue:text}`deep-erasure/astray_nll`; with the exact one {glue:text}`deep-erasure/exact_nll`.
#
# ## The data, and how good a model can be
#
# For each context appendix E draws five of 25 categories and five anchors $a_m \sim N(0, I_{10})$, and sets $f(x) = 10 \sum_m w_{c(m)}\,\kappa(x - a_m)$ with a kernel that is 0.1 at the nearest other
# anchor. (The text calls the factor 10 $\lambda$; it is not the erasure head's.) How $x$ is drawn is not said. The printed kernel has an unsquared distance; the published code has
# $x \sim U(-1,1)^{10}$ and a squared one. The mean of the largest true probability bounds every accuracy, so it can rule readings out. It also moves with $W_e$, which is drawn once.

# %% mystnb={"image": {"alt": "Dots of the oracle accuracy over draws of W_e for five settings; the quadrants spread widely around the printed 0.6; with x normal no draw reaches the printed 0.731."}}
values, samples = bounds.records(60 if paper else 12, 2048 if paper else 512)
bound, oracle = bounds.oracle(Quadrants(N=1), 8192)[0], bounds.oracle(Anchors(N=1), 8192)
style.show(bounds.plot_bounds(samples, bound))
record.all(values)
record.verdict("wang2025/q-we-draw")

# %% [markdown]
# *Oracle accuracy of five settings. Each dot is one draw of $W_e$ ({glue:text}`we-draw/draws` of them). Dashes: the printed bound of figure 8, and the best accuracy that the authors' code prints for
# appendix E.* With normal $x$ no model can reach the printed accuracy; uniform $x$ with the printed kernel is not excluded. Appendix F says that performance "was found to be consistent across many
# different draws of $W_e$"; the quadrants' least and largest bound are {glue:text}`we-draw/quadrants_range`. The figures' trainings here fix one $W_e$, as the paper does, with $x \sim U(-1,1)^{10}$
# and the squared distance. Two questions below train one block on the authors' own $W_e$, drawn again from their seed, with either distance.
#
# ## One block: GD against Trained TF
#
# "GD" has three kinds of parameters: $W_e$, $\alpha$ and the kernel's precision $\gamma$, in $\exp(-\gamma \|x - x'\|^2)$ or $\exp(\gamma\, x^\top x')$. "Trained TF" has $W_Q, W_K, W_V, P$ and $W_e$,
# all free. Both learn from $L$ fixed contexts and are scored on 2,048 new ones at the best validation record. Trainings are shorter than the paper's, at larger rates.

# %% mystnb={"image": {"alt": "Accuracy and NLL against the number of training contexts for RBF and softmax attention: GD is nearly flat, Trained TF starts far behind and approaches it; linear attention stays low."}}
sweep = figures_3_5.one_block(get, profile)
style.show(figures_3_5.plot_sweep(sweep, oracle[0]))
record.all(figures_3_5.figure_3(sweep) | figures_3_5.wide_pair(get))
record.all(figures_3_5.new_draws(get, profile))
record.verdicts("fig3", "q-new-draws", "q-draw-spread")

# %% [markdown]
# *Test accuracy (top) and NLL (bottom) against the number of training contexts, RBF (left) and softmax attention (right). Mean and standard deviation over {glue:text}`fig3/seeds` initialisations;
# $N = 10$; {glue:text}`time/fig3` minutes of training.* Softmax GD has accuracies {glue:text}`fig3/softmax_accuracy` for $L$ = {glue:text}`fig3/L`, Trained TF {glue:text}`fig3/softmax_accuracy_tf`;
# linear attention ends at {glue:text}`fig3/linear_accuracy`. With $N = 125$, the published code's context, GD and Trained TF reach {glue:text}`fig3/wide_accuracy`, NLL {glue:text}`fig3/wide_nll`.
#
# "Agree" is read as "no visible gap in the figure": three points of accuracy, 0.075 nats. Runs are paired (seed, test set); $t$ tells how sure a gap is. At the largest $L$ Trained TF is behind by:
#
# | | NLL (nats) | $t$ | accuracy | $t$ |
# |---|---|---|---|---|
# | softmax | {glue:text}`fig3/softmax_nll_gap` | {glue:text}`fig3/softmax_nll_gap_t` | {glue:text}`fig3/softmax_accuracy_gap` | {glue:text}`fig3/softmax_accuracy_gap_t` |
# | RBF | {glue:text}`fig3/rbf_nll_gap` | {glue:text}`fig3/rbf_nll_gap_t` | {glue:text}`fig3/rbf_accuracy_gap` | {glue:text}`fig3/rbf_accuracy_gap_t` |
#
# All that is on one draw. On further draws of everything, $W_e$, contexts and initialisations, Trained TF with softmax attention is behind by {glue:text}`q-new-draws/softmax_accuracy_gap` of accuracy and
# {glue:text}`q-new-draws/softmax_nll_gap` nats on average. One block's accuracy has a standard deviation of {glue:text}`q-draw-spread/units` from draw to draw, and of {glue:text}`q-draw-spread/inits`
# from initialisation to initialisation on the same draw, which is what the paper's error bars show.
#
# ## More blocks, and how many examples there are
#
# The text says $N = 10$; file names in the published code say 125. More examples make for better accuracies, so the printed ones decide.

# %% mystnb={"image": {"alt": "Top: accuracy and NLL along training for one to six blocks. Bottom: accuracy and NLL against the number of blocks for N = 10 and N = 125; the authors' values lie near N = 125."}}
by_depth = figures_3_5.by_depth(get, profile)
style.show(figures_3_5.plot_depths(by_depth))
record.all(figures_3_5.figure_4(by_depth) | figures_3_5.on_the_authors_embeddings(get, profile))
record.all(construction.absorbed())
record.verdicts("fig4", "n10", "q-published")

# %% [markdown]
# *Top: accuracy and NLL along training for one to six blocks. Bottom: both against the number of blocks. GD with softmax attention, {glue:text}`time/fig4` minutes. Crosses: the authors' code.*
#
# | with 1, 2, ... blocks | $N = 10$ | $N = 125$ |
# |---|---|---|
# | accuracy | {glue:text}`fig4/narrow_accuracy` | {glue:text}`fig4/wide_accuracy` |
# | NLL | {glue:text}`fig4/narrow_nll` | {glue:text}`fig4/wide_nll` |
# | seeds | {glue:text}`fig4/narrow_seeds` | {glue:text}`fig4/wide_seeds` |
#
# At $N = 10$ the second block gains {glue:text}`fig4/narrow_gain` of accuracy and {glue:text}`fig4/narrow_nll_gain` nats. The paper says that the NLL goes on improving; here the third block gains
# {glue:text}`fig4/narrow_third_gain` nats and the best deeper model {glue:text}`fig4/narrow_late_gain` (a loss if negative), after 50 epochs where the paper trains for up to 5,000. At $N = 125$ the
# second block gains {glue:text}`fig4/wide_gain` and {glue:text}`fig4/wide_nll_gain`, deeper ones {glue:text}`fig4/wide_late_gain` nats. But budgets differed there, and a share of
# {glue:text}`fig4/wide_at_end` of the runs were best at their last record, so $N = 10$ is judged. The crosses belong to the authors' $W_e$: hence the other draws, and a test on theirs.
# That test is the published code's own: its $W_e$, its 5,000 epochs, its rate, on several draws of contexts. From the accuracy that it prints, one block is {glue:text}`q-published/narrow_accuracy` away
# with $N = 10$ (another draw could be by {glue:text}`q-published/narrow_accuracy_reach`), {glue:text}`q-published/wide_accuracy` with $N = 125$ ({glue:text}`q-published/wide_accuracy_reach`), and
# {glue:text}`q-printed-kernel/accuracy` with $N = 125$ and the distance as printed ({glue:text}`q-printed-kernel/accuracy_reach`).
#
# Equation 3 has a number $\alpha$, the published code a vector. In one block nothing can be gained: a positive vector rescales the coordinates of $W_e$ (relative difference of the logits
# {glue:text}`q-alpha/absorbed`; trained, the two differ by {glue:text}`q-alpha/one_block` nats). Several blocks absorb only a *common* vector.
#
# ## Two blocks, trained freely

# %% mystnb={"image": {"alt": "Accuracy and NLL of two blocks against the number of training contexts, GD and Trained TF."}}
deep = figures_3_5.two_blocks(get, profile)
style.show(figures_3_5.plot_two_blocks(deep))
record.all(figures_3_5.figure_5(deep) | figures_3_5.gap(sweep, deep))
record.verdict("wang2025/fig5-left")

# %% [markdown]
# *Accuracy and NLL of two blocks against the number of training contexts. Seeds: {glue:text}`fig5/seeds` (GD, Trained TF); {glue:text}`time/fig5-left` minutes of training.* NLL for $L$ =
# {glue:text}`fig5/L`: GD {glue:text}`fig5/gd_nll`, Trained TF {glue:text}`fig5/tf_nll`. With the smaller $L$ GD loses only {glue:text}`fig5/gd_cost`. Two numbers of contexts cannot show that Trained
# TF needs "more than 25,000"; and with the larger one it is still {glue:text}`fig5/last_gap` behind ($t$ = {glue:text}`fig5/last_gap_t`) after some eight epochs. Is it data or optimisation?

# %% mystnb={"image": {"alt": "NLL along training of two blocks on training and new contexts: with 2,048 contexts Trained TF fits its own contexts ever better while its test NLL rises; GD's two curves stay together."}}
style.show(figures_3_5.plot_fits(figures_3_5.fits(get, profile)))

# %% [markdown]
# *NLL of two blocks along training, on new contexts (solid) and on the training contexts (dashed), means over seeds.* Scores elsewhere are of the best validation record, before the rise. What Trained
# TF loses from training to test is the price of few contexts; what its training NLL lies above GD's is what optimisation has not yet found. (The training NLL is a mean over a steep stretch.)
#
# | NLL (nats) | one block | two blocks |
# |---|---|---|
# | Trained TF, test minus training, smallest $L$ | {glue:text}`q-gap/one_overfit_small` | {glue:text}`q-gap/two_overfit_small` |
# | the same, largest $L$ | {glue:text}`q-gap/one_overfit_large` | {glue:text}`q-gap/two_overfit_large` |
# | training, Trained TF minus GD, largest $L$ | {glue:text}`q-gap/one_unfitted_large` | {glue:text}`q-gap/two_unfitted_large` |
# | test, Trained TF minus GD, largest $L$ | {glue:text}`q-gap/one_test_large` | {glue:text}`q-gap/two_test_large` |
# | its $t$ over seeds | {glue:text}`q-gap/one_test_large_t` | {glue:text}`q-gap/two_test_large_t` |
#
# ## Quadrants
#
# Appendix F needs no anchors: $x$ is uniform on a square, and $f$ is one of four embeddings, by quadrant. Two dimensions can be drawn.

# %% mystnb={"image": {"alt": "Test accuracy along training for five kernels: GD and Trained TF come close to each other below the bound for RBF, softmax and Laplacian, lower for exponential and lowest for linear."}}
by_kernel = figures_8_9.compare(get)
style.show(figures_8_9.plot_training(by_kernel, bound))
record.all(figures_8_9.figure8(by_kernel, bound))
record("fig8/bound_se", bounds.bound_error(Quadrants(N=1), 8192))
record.verdict("wang2025/fig8")

# %% [markdown]
# *Test accuracy along training, five kernels. Thin: {glue:text}`fig8/seeds` initialisations; thick: their mean; dots: mean maximum probability; {glue:text}`time/fig8-9` minutes.*
#
# | | RBF, Laplacian, exponential, softmax |
# |---|---|
# | accuracy of GD (linear: {glue:text}`fig8/linear`) | {glue:text}`fig8/gd` |
# | accuracy of Trained TF | {glue:text}`fig8/tf` |
# | GD minus Trained TF, paired over seeds: $t$ | {glue:text}`fig8/gaps_t` |
#
# The gaps look small, but Trained TF and GD with *another* kernel can be nearer still, the nearest {glue:text}`fig8/crossed_gap` apart. So agreement is asked for in units of what sets kernels apart.

# %% mystnb={"image": {"alt": "Nine maps over the square: true probabilities of three categories are constant in each quadrant; GD and Trained TF show the same quadrants with soft borders."}}
maps = figures_8_9.every_map(get, profile, contexts=4 if paper else 2)
style.show(figures_8_9.plot_maps(maps["rbf"][0]))
record.all(figures_8_9.figure9(maps) | figures_8_9.own_kernel(get, profile, 512 if paper else 64))
record.verdicts("fig9", "q-own-kernel")

# %% [markdown]
# *Probability of three categories over the square: true, GD and Trained TF. RBF attention, the first of four contexts, mean over initialisations. Numbers: their examples; circles: others.*
#
# | mean absolute difference of the maps | on each context |
# |---|---|
# | Trained TF from GD, RBF | {glue:text}`fig9/difference` |
# | GD from GD of another initialisation | {glue:text}`fig9/seeds_difference` |
# | Trained TF with RBF from GD with the nearest other kernel | {glue:text}`fig9/crossed_difference` |
# | GD's best category is the right one (share of the square) | {glue:text}`fig9/right_gd` |
# | Trained TF's is | {glue:text}`fig9/right_tf` |
#
# The distances are small, but so are those of the wrong pair: such maps do not tell the two kernels apart. And a hundred noisy labels do not fix every quadrant. Queries say more:
#
# | total variation, queries of 512 new contexts | linear, RBF, Laplacian, exponential, softmax |
# |---|---|
# | Trained TF from GD with its own kernel | {glue:text}`q-own-kernel/own` |
# | from GD with the nearest other | {glue:text}`q-own-kernel/nearest` |
#
# Most kernels are told apart, RBF from Laplacian hardly. Ask a trained model yourself: one block of GD with softmax attention, trained on the quadrants; the labels are yours. Further blocks repeat
# its step, for which it was not trained. The maps below it need no training: functional descent with the true $W_e$ on one context. More blocks sharpen the map and then fit the noise in the labels;
# more examples help at any depth. The bandwidth is a choice between smoothing over the borders and trusting single labels.

# %% tags=["hide-input"]
show_model(sliders.label_square(get("quad_gd_inner")))
sliders.show_blocks(few=not paper)
sliders.show_kernels(few=not paper)

# %% [markdown]
# ## What Trained TF learns
#
# Figure 10 of the paper shows the learned matrices. *A* and *B* are the columns of $W_K$ and $W_Q$ that read the covariate $x$; attention compares covariates by $Q = A^\top B$. *D* is the columns of
# $W_V$ that read the label's embedding $w$ (less the mean embedding), *E* the rows of $P$ that write to $f$ (not the scratch space $E_i$): the step on $f$ is $ED$ times what GD has. GD would have $Q$
# and $ED$ multiples of the identity. The paper adds $A \approx B$ and $E \approx D^\top$, and that $W_K$ leaves $w$ alone and $W_V$ leaves $x$ alone. Trained here at the published code's length and
# rate, on several draws of $W_e$ and contexts. (A share of {glue:text}`fig10/inert_share` of all entries has gradient zero for every prompt, and moves by {glue:text}`fig10/inert_moved`.)

# %% mystnb={"image": {"alt": "Four learned 12 by 12 matrices; hatched areas cannot be reached by any gradient."}}
values, products = figures_10_11.records(get, profile)
style.show(figures_10_11.plot_matrices(products["code"]))
record.all(values)

# %% [markdown]
# *The four learned matrices. Softmax attention, first draw, published start. Hatched: entries that no gradient reaches. {glue:text}`time/fig10-11` minutes of training.* How small are the entries that
# should vanish, over those that should not, and how far are the products from what they should be (0: equal; one number for each of {glue:text}`fig10/draws` draws)?
#
# | | published start | Glorot's start (text) |
# |---|---|---|
# | $Q$ from a multiple of the identity | {glue:text}`fig10/code_Q` | {glue:text}`fig10/glorot_Q` |
# | $A$ from $B$ | {glue:text}`fig10/code_AB` | {glue:text}`fig10/glorot_AB` |
# | $W_K$: entries for $w$ over those for $x$ | {glue:text}`fig10/code_keys` | {glue:text}`fig10/glorot_keys` |
# | $W_V$: entries for $x$ over those for $w$ | {glue:text}`fig10/code_values` | {glue:text}`fig10/glorot_values` |
# | $ED$ from a multiple of the identity | {glue:text}`fig10/code_ED` | {glue:text}`fig10/glorot_ED` |
# | the same, true $W_e$ held | {glue:text}`fig10/true_ED` | |
# | $E$ from $D^\top$ | {glue:text}`fig10/code_transpose` | {glue:text}`fig10/glorot_transpose` |

# %% mystnb={"image": {"alt": "Q and E D of four trainings: Q is near a multiple of the identity in all; E D has a clear diagonal, and entries beside it, in all."}}
style.show(figures_10_11.plot_products(products))
record.verdicts("fig10-11", "q-ed-gauge", "q-ed-inverse")

# %% [markdown]
# *$Q$ (top) and $ED$ (bottom) of four trainings. First draw; each matrix is divided by its largest entry.* When $W_e$ is learned, $ED$ has no meaning of its own: $W_e \to G^{-\top} W_e$ with
# $ED \to G\,ED\,G^\top$ gives the same predictions for any invertible $G$ (relative difference {glue:text}`q-ed-gauge/logits`, while a random $G$ turns $ED$ to a distance of
# {glue:text}`q-ed-gauge/turned`). The true $W_e$ leaves no such freedom: then the two starts' $ED$ differ by {glue:text}`q-ed-gauge/true_spread`, with $W_e$ learned by
# {glue:text}`q-ed-gauge/learned_spread`. Where does it point, beside the identity? A Newton step would multiply by the inverse of the classes' second moment: cosine {glue:text}`q-ed-inverse/cosine`,
# with another draw's {glue:text}`q-ed-inverse/other`. As for $E \approx D^\top$: gradient *flow* conserves $E^\top E - D D^\top$, near zero at the published start; Adam does not.
#
# ## Theorem 2
#
# If the covariates are rotationally invariant, then at $B_\ell = b_\ell I$ the gradient of the population loss is itself a multiple of the identity, so following only the scalars $b_\ell$ ends at a
# stationary point. The test draws prompts that satisfy the assumptions and asks whether their mean gradient departs from a multiple of $I$ by no more than its Monte Carlo error ($d = 4$, $N = 8$, two
# layers, softmax). Here $B_\ell$ is the matrix between covariates in layer $\ell$ (appendix I's $W_K^\top W_Q$), $T_\ell$ the block of $W_V$ that takes residuals to $f$. P values:
# {glue:text}`thm2/skewed_p` for a control without symmetry, {glue:text}`thm2/cube_p` on a cube.

# %% mystnb={"image": {"alt": "Gradient entries of both layers with error bars under four laws of the covariates: off-diagonal entries are zero for the sphere, the cube and the finite group, but not for skewed covariates."}}
prompts = 8000 if paper else 1500
values, shapes = theorem_2.shapes(prompts)
style.show(theorem_2.plot_gradients(shapes))
record.all(values | theorem_2.groups() | theorem_2.exactly())
record.verdicts("q-thm2-group", "eq58")

# %% [markdown]
# *Entries of the gradient of both layers, with two standard errors, under four laws of the covariates. Discs: diagonal entries; crosses: others; {glue:text}`thm2/prompts` prompts.* Full rotational
# invariance is more than is needed. The proof uses only that the mean of $U^\top R U$ over the group is $\mathrm{tr}(R)/d\; I$, which holds exactly for absolutely irreducible groups. Such a group has
# at least $d(d+1)$ elements, and the affine group of a field of $d+1$ elements, moving the corners of a simplex, has just as many: {glue:text}`thm2-group/order_d2` in the plane,
# {glue:text}`thm2-group/order_d4` at $d = 4$, {glue:text}`thm2-group/order_d10` at $d = 10$. Rotations of a polygon do not suffice (distances for four polygons:
# {glue:text}`thm2-group/rotations_defect`); the symmetries of the square and of $U(-1,1)^d$ do. The paper's two data sets are no cases of the theorem, for their functions are not of the form (53);
# but the joint law of covariates and labels stays the same under these symmetries, which is what the averaging needs. With a finite group nothing need be sampled. Move two prompts by all 110
# elements, sum over all labels: the gradient is a multiple of $I$ to rounding, and the loss falls exactly as fast as equation 58 says. For the two prompts alone neither holds.

# %% mystnb={"image": {"alt": "Gradient entries of B, T and S where the scalars are stationary: those of B are zero, those of T and S are not when W_e is fixed."}}
values, ends = theorem_2.stationary(prompts)
style.show(theorem_2.plot_gradients(ends, stationary=True))
record.all(values)
record.verdicts("thm2", "q-thm2-all")

# %% [markdown]
# *Entries of the gradients of $B$, $T$ and the block from $F$ to $F$, the last panel with $W_e$ rotated, at a stationary point of the scalars $b_\ell$ and $t_\ell$ (found by L-BFGS,
# {glue:text}`thm2/fixed_flow_drop` nats below its start), on new prompts.* The point is stationary in $B$, and in $T$ as far as assumption 2 forces $T$ to be a multiple of $I$. Without the assumption
# it is not: a fixed $W_e$ does not make the categories' directions alike (p value of "the gradient of $T$ is a multiple of $I$": {glue:text}`thm2/fixed_T_p`), and the block of $W_V$ from $F$ to $F$,
# set to zero, has one too ({glue:text}`thm2/fixed_S_p`). With $W_e$ rotated at random in each prompt, our change, the p values are {glue:text}`thm2/rotated_T_p` and {glue:text}`thm2/rotated_S_p`.
#
# ## Special cases
#
# With real $y$ and squared error the expectation is $f$ itself (appendix G), and one step with the linear kernel is the gradient-descent predictor of {cite}`he2025`. With several heads (appendix H)
# each has a diagonal $\Lambda_m$. With $P_m = I$ that is descent on all $A_m$; with free $P_m$, as printed, it is not: descent on $f = \sum_m P_m A_m \psi_m$ multiplies by $P_m P_m^\top$ (difference
# then {glue:text}`multi-kernel/mixed_corrected`). These heads return in the language model below.

# %%
record.all(construction.gaussian() | construction.multi_kernel() | figure_7.parameters())
record.verdicts("gaussian", "multi-kernel")
sliders.show_heads(few=not paper)

# %% [markdown]
# ## Images
#
# Can a trained model name images of classes that it never saw, from a context of labelled examples alone? The paper takes ImageNet: 900 classes for training and 100 for testing, five classes and ten
# images of each in a context, VGG features with $d = 512$, embeddings with $d' = 4$. Labels 1 to 5 are dealt anew in each context, so what is learned is how to read a context. The rival is *linear
# probing*, a linear classifier learned anew on each context. ImageNet and VGG weigh gigabytes. Every reader has our stand-in: {glue:text}`images/classes` characters in twelve typefaces that ship with
# matplotlib, a little turned, scaled, sheared and shifted, a patch erased, noise added. A small convolutional network learns to name the training characters and never sees the other
# {glue:text}`images/test_classes`; its last map averaged over the image, as the published code does with VGG, is $x$.
#
# Taken here: features scaled by one number to mean square length 1; Adam with rate 0.03, 128 episodes a step out of {glue:text}`images/contexts` (as in the paper), the record with the lowest loss on
# held-out episodes of *training* classes. {glue:text}`images/networks` networks, {glue:text}`images/seeds` seeds each, {glue:text}`images/episodes` test episodes; {glue:text}`images/minutes` minutes.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Fifty glyphs of five classes sorted by label, framed by attention; a query glyph; bars of the probability of each label after one, two and three blocks."}}
studies = wang2025.studies(profile)
pictures = {name: get(name) for name in figure_5_right.image_names(studies)}
record.all(figure_5_right.setting_records(studies, pictures) | figure_5_right.comparison_records(pictures))
style.show(*figure_5_right.plot_episodes(pictures))
record.verdict("wang2025/fig6")

# %% [markdown]
# *Two test episodes; the second is the stored one on which one block is least sure. Left: the context by label, the frame showing the first block's attention. Right: the query, and the probability of
# each label after one, two and three blocks.* No parameter changes when the classes do. If the context's labels are shuffled, accuracy is {glue:text}`images/shuffled` (chance: 0.2). That the setting
# is the paper's is checked on the episodes and models themselves: {glue:text}`images/setting`. Figure 5, right, next. *Which attention?* The text does not say. The claim is read with softmax, as in
# the other deep figures. Linear attention stands beside it: its $K$ blocks are $K$ steps of gradient descent on a linear classifier, with learned steps: linear probing itself, cut short. *Which
# probe?* The paper trains it for 500 epochs, without a word on regularisation. We show that recipe, and a converged probe whose penalty was chosen on training classes. We train 19 of 500 epochs.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Accuracy, negative log-likelihood and paired difference in accuracy against one to three blocks of softmax and linear attention, with bands for two linear probes."}}
style.show(figure_5_right.plot_comparison(pictures))
record.verdict("wang2025/fig5-right")

# %% [markdown]
# *Accuracy, NLL and accuracy less linear probing against the number of blocks, on episodes of unseen classes. Filled: softmax attention; open: linear attention; lines: probes; with 95 % intervals.*
#
# | blocks | 1 | 2 | 3 | probe, penalty chosen | probe, 500 Adam steps |
# |---|---|---|---|---|---|
# | accuracy, softmax | {glue:text}`images/softmax/accuracy1` | {glue:text}`images/softmax/accuracy2` | {glue:text}`images/softmax/accuracy3` | {glue:text}`images/tuned/accuracy` | {glue:text}`images/coded/accuracy` |
# | accuracy, linear | {glue:text}`images/linear/accuracy1` | {glue:text}`images/linear/accuracy2` | {glue:text}`images/linear/accuracy3` | | |
# | NLL, softmax | {glue:text}`images/softmax/nll1` | {glue:text}`images/softmax/nll2` | {glue:text}`images/softmax/nll3` | {glue:text}`images/tuned/nll` | {glue:text}`images/coded/nll` |
# | NLL, linear | {glue:text}`images/linear/nll1` | {glue:text}`images/linear/nll2` | {glue:text}`images/linear/nll3` | | |
#
# Paired, softmax less tuned probe: {glue:text}`images/softmax/tuned/accuracy1` with one block ($\pm$ {glue:text}`images/softmax/tuned/accuracy1_se`), {glue:text}`images/softmax/tuned/accuracy3` with
# three ({glue:text}`images/softmax/tuned/accuracy3_se`); three linear ones {glue:text}`images/linear/tuned/accuracy3` ({glue:text}`images/linear/tuned/accuracy3_se`).

# %% tags=["hide-input"] mystnb={"image": {"alt": "Accuracy and loss against training step for one, two and three blocks, on training classes and on unseen classes."}}
style.show(figure_5_right.plot_training(pictures))

# %% [markdown]
# *Accuracy and NLL along training for one, two and three blocks, on unseen classes (solid, with the range over runs) and on training classes (dashed).* What does "unseen class" mean here? The
# classifier's training never met the 100 classes. The *features* of the paper did: VGG learned to name all 1,000, the 100 included. So we train networks of both kinds.

# %% tags=["hide-input"] mystnb={"image": {"alt": "Accuracy of one block, three blocks and the linear probe with features trained on 900 and on all 1,000 classes."}}
record.all(figure_5_right.seen_records(pictures) | figure_5_right.last_records(studies, pictures))
style.show(figure_5_right.plot_seen(pictures))
record.verdict("wang2025/q-unseen")

# %% [markdown]
# *Accuracy of one block, three blocks and the linear probe on the test classes, with features trained on 900 and on all 1,000 classes. A line joins one pair of networks.* Features that learned to
# name the test classes gain {glue:text}`images/seen/blocks3` of accuracy with three blocks and {glue:text}`images/seen/probe` with the probe (one number for each pair of networks). The comparison of
# the two classifiers is fair either way, but an accuracy on "unseen" classes through features that saw them is not an accuracy on unseen classes. The published PyTorch loader always numbers the
# query's class last, in training and in testing, so the answer "5" is right there without looking; its JAX version deals labels at random, as the text says. Which one drew the figure we cannot tell.
# Trained and tested on episodes of the first kind, three blocks are right {glue:text}`images/last/blocks3` of the time ({glue:text}`images/last/gain` more than with labels dealt at random on the same
# network), and {glue:text}`images/last/blind` when the context's labels are shuffled, where an honest reader of contexts falls to chance.
#
# ## Language
#
# In section 6.3 positions are the covariates and tokens the categories (figure 7). So the weights of a block see positions and no token, and **what the tokens of a story do to $f$ after one block
# adds up**: permute the contents, and no weight moves. A Transformer's weights ask what the tokens are; a sum over positions cannot look up who the hero was. It should show in what is said *again*.

# %% mystnb={"image": {"alt": "Heat maps of token embeddings, positions and f, and the attention weights of three heads over positions."}}
style.show(figure_7.plot_tensors())
record.all(figure_7.records())
record.verdicts("fig7", "params", "q-params")

# %% [markdown]
# *A small model's tensors: token embeddings, positions and $f$ as heat maps, and the weights that the query gives to each position, by head.* The text's diagonal $\Lambda_m$ and number $\alpha_m$ for
# each of 8 heads are {glue:text}`params/gd_scalar` parameters. The published code has no $\alpha_m$, one tensor of {glue:text}`params/gd`, and counts it twice ({glue:text}`params/gd_counted_twice`,
# the printed "8K"); $P_m$ is in neither ({glue:text}`params/gd_text_millions` million with it). The printed "6M" are $W_Q, W_K, W_V$ of full width ({glue:text}`params/tf_millions` million,
# {glue:text}`params/tf_with_P_millions` with $W_O$); a GPT-2 layer has {glue:text}`params/tf_narrow_millions`. Beside the embeddings, GD with feed-forward has {glue:text}`params/gd_ff_millions`
# million, a Transformer with standard heads {glue:text}`params/standard_millions`; all in all GD has {glue:text}`params/gd_total_millions`, the Transformer {glue:text}`params/tf_total_millions`.
#
# Tables 1 to 7 and figure 14 need models trained on TinyStories and Children's Stories and endings graded by GPT-4o. Neither is at hand, and the paper's models are not published, so these rows stay out
# of reach.

# %% tags=["hide-input"]
record.all(minutes({name: float(get(name).provenance["seconds"]) for name in studies}))
record.verdicts("tables1-3", "fig14", "one-block", "tables4-7")

# %% [markdown]
# All stored trainings took {glue:text}`time/all` minutes of a shared core, most of them as the captions say; figures 5 (right) and 6 {glue:text}`time/fig5-right`, other draws of $W_e$
# {glue:text}`time/draws`, the authors' own {glue:text}`time/published`. GD leaves out the zeros and what nobody reads: the page of [benchmarks](../book/benchmarks.md) says what that saves.
#
# ## What to take away
#
# A transformer that makes exact steps of gradient descent on categories can be written down, and it works as long as its erasure is exact; a softmax of inner products makes it so only where no longer
# covariate points the same way. A transformer with free weights comes near the same answers if it sees enough contexts, but it is not the same, and whether longer training closes the gap is open.
# Learned matrices prove less than they seem to: with learned embeddings they are fixed only up to a change of basis. The best accuracy that any model can reach moves with the one draw of the
# embeddings. Pictures and stories are stand-ins here, so what the paper says of ImageNet and TinyStories is open, too.

# %% [markdown]
# ## Exercises
#
# Each can be solved with what this chapter imports. The solutions ran with the chapter and check their own answers.
#
# **1. One example.** Two categories have the embeddings $\pm 1$ on a line. The context holds one example, of the category $+1$, and the query stands where it does, so that $\kappa = 1$. Write down
# $f$ of the query after one, two and three steps with $\alpha = 1$. What is the probability of $+1$ after the first?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
pair, label = torch.tensor([[1.0, -1.0]]), torch.tensor([0])  # W_e (d', C), y
steps = [f[1, 0] for f in descent.functional_descent([torch.ones(1, 2)], label, pair, (1.0,) * 3)]
# The expected embedding is p(+1) - p(-1) = tanh f, so f becomes f + 1 - tanh f: a whole step first, then shorter ones.
by_hand, f = [], 0.0
for _ in range(3):
    f += 1 - math.tanh(f)
    by_hand.append(f)
print(by_hand, "probability after the first:", 1 / (1 + math.exp(-2)))
assert np.allclose(steps, by_hand, atol=1e-5)
assert np.isclose(torch.softmax(pair[0] * steps[0], 0)[0], 1 / (1 + math.exp(-2)), atol=1e-5)

# %% [markdown]
# **2. Erasure led astray.** Find three points in the plane of which a softmax of inner products, however sharp, finds only two. Mend it by moving points without turning them.

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
points = torch.tensor([[1.0, 0.0], [2.0, 0.2], [0.0, 1.0]])  # the second: longer, nearly along the first
on_circle = points / points.norm(dim=1, keepdim=True)
found = [erasure.softmax_weights(x, lam=1e3, size=4).argmax(-1).tolist() for x in (points, on_circle)]
print(found)
# on one circle x_j.x_i is the cosine between the two, and largest for the point itself
assert found == [[1, 1, 2], [0, 1, 2]]

# %% [markdown]
# **3. How much symmetry?** In theorem 2 the mean of $U^\top R\,U$ over a group is a multiple of $I$ for every $R$. Are a square's four rotations enough? Which $R$ do they leave?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
rotations = symmetry.rotations_of_polygon(4)
quarter_turn = np.array([[0.0, -1.0], [1.0, 0.0]])
# Rotations commute, so a rotation is its own mean: they are enough for symmetric R only. A reflection turns it round.
square = np.concatenate([rotations, rotations @ np.diag([1.0, -1.0])])
print(symmetry.averaged(rotations, quarter_turn).round(12), symmetry.averaged(square, quarter_turn).round(12))
assert np.allclose(symmetry.averaged(rotations, quarter_turn), quarter_turn)
assert np.allclose(symmetry.averaged(square, quarter_turn), 0)
assert symmetry.defect(square) < 1e-9

# %% [markdown]
# **4. Too many steps.** The quadrants' labels are noisy. Let functional descent run with the true $W_e$, an RBF kernel ($\gamma = 30$) and $\alpha = 8$ on 64 contexts. When should it stop?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
batch = sample_contexts(Quadrants(N=100), 64, seed=11)
# the query last: x (64, 101, 2), y (64, 101)
x = torch.cat([batch.context[:, :2], batch.query[None]]).permute(2, 0, 1).double()
y = torch.cat([batch.context[:, 2], batch.target]).T.long()
w = Quadrants().embedding.double()
f, nll = torch.zeros(64, 101, len(w), dtype=torch.float64), []
kernel = torch.exp(-30 * torch.cdist(x, x[:, :100]) ** 2)
for _ in range(31):
    each = -torch.log_softmax(f @ w, -1).gather(-1, y[..., None])[..., 0]
    nll.append([float(each[:, :100].mean()), float(each[:, 100].mean())])
    f = f + 8 / 100 * kernel @ (w.T[y[:, :100]] - descent.expectation(w, f[:, :100]))
examples, query = np.array(nll).T
print("best step:", query.argmin(), "NLL of the query there, and at the end:", query.min(), query[-1])
# the examples are fitted ever better, the query only at first: what comes later is their noise
assert (np.diff(examples) < 0).all()
assert 1 <= query.argmin() <= 20
assert query.min() < min(1.8, query[-1] - 0.1)

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Errata
#
# **Equation 14**, the bias, has lost the factor $1/N$ of its last term: as printed it is off by {glue:text}`eq14/printed`, with $1/N$ by {glue:text}`eq14/with_mean` (equations 2 and 3:
# {glue:text}`eq2-3/difference`). **Equation 39** should be a softmax; as printed the exponential stands outside the fraction, the weights do not sum to one, and at $f = 0$, where descent starts, it
# is $0/0$. **Equations 54 to 56** have lost $F_\ell$ and gained an identity: $F_{\ell+1} = F_\ell + T_\ell(\Gamma - \Xi(F_\ell))\tilde h$ is what equation 52 says and what descends. **Indices and
# signs.** In equations 11, 13, 18 and 40 categories begin at 0 beside sums from 1. Equation 26 has the summed $i$ on its left; section 3.2.1's head subtracts the asker's expectation. Equation 49 ends
# at $k$, which is right for appendix G's numbering of increments an implicit step for equation 3's. Lost: the $I$ of equation 57, $\xi(f)$'s $w_{e,c}$, the minus of section 5's loss.
#
# **No slips, though they look like some.** The minus that erases stands in $W_V$ in section 3.2.2, and is left to $P^{(1)}, P^{(2)}$ in equations 35 to 37: each form is right. If the erasure head's
# keys are the examples only, the query's expectation is never erased and its slot is wrong by {glue:text}`query-slot/error` or more, but nobody reads that slot ($f$ changes by
# {glue:text}`query-slot/f_difference`). **The published code** holds the last embedding at zero. That costs nothing: one vector added to all embeddings changes neither residuals nor probabilities.
# But its JAX version also takes the block's kernel for the expectation, which is equation 6 for softmax only. One block never reads it, and the figures with several blocks are for softmax.

# %% tags=["hide-input"]
record.all(errata.records())
record.verdict("wang2025/typos")

# %% [markdown]
# ## Every claim

# %% tags=["hide-input"]
record.table()
