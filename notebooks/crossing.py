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
# # Five Papers Examine Each Other
#
# *This chapter reproduces no paper. It asks of each law in the five papers: on which of the others' models does it hold?*
#
# **What came out.** How long training stalls from small weights {cite}`recall2025` follows from a count of the weights that must grow together: on ten small models, under gradient flow (infinitely
# small steps), if each prompt comes also with signs turned. On regression, heads of opposite sign subtract the covariates' mean {cite}`he2025`, and a trained layer takes one step of descent in a
# space of functions {cite}`wang2025`. On two models attention does not settle before values {cite}`agarwal2025`. Each statistic that should show descent from layer to layer {cite}`nagy2026` is
# passed by some stack of layers that approaches the answer in another way.
#
# All verdicts here answer questions of our own. (All letters: [Notation and glossary](../book/notation.md).)

# %% tags=["parameters", "remove-cell"]
profile = "paper"
device = "auto"

# %% tags=["hide-input"]
from functools import cache

import numpy as np

from iclbook.claims import Recorder
from iclbook.drawing import style
from iclbook.drawing.diagram import show_attention
from iclbook.papers import crossing, he2025
from iclbook.papers.crossing import (
    chance,
    descent,
    descent_ladder,
    escape,
    heads_as_steps,
    rates,
    waits,
)
from iclbook.papers.crossing import figures as draw
from iclbook.papers.crossing.models import FIRST, softmax_heads
from iclbook.papers.crossing.waits_in_page import train_waits, waiting_time
from iclbook.papers.he2025.circuits import with_both_signs
from iclbook.papers.nagy2026 import ladder
from iclbook.papers.nagy2026.probe_statistics import alignment
from iclbook.sliders import Slider, show, show_model
from iclbook.tasks import LinearRegression
from iclbook.training.landscape import Landscape

record = Recorder("crossing", profile)
style.use()
paper = profile == "paper"

# %% tags=["hide-input"]
waited = crossing.results("waits", profile, device)
found = waits.times(waited)
draws = len(found["heads"])
record("draws", draws)
record.all(waits.degree_values(found))
record.all(waits.adam_values(draws))
followed = crossing.results("leads", profile, device)
ahead = waits.kept_leads(followed)
record.all(waits.timing_values(ahead, len(followed["heads/equal"])))
races = {
    name: crossing.results(f"rates_{name}", profile, device) for name in rates.TRIALS
}
raced = {name: rates.of_results(results) for name, results in races.items()}
record.all(rates.rate_values(raced))


# %% [markdown]
# ## How long training stalls
#
# Start attention from small weights, and for a while the loss does not move. In associative recall this wait grows as $1/\epsilon$ with the size $\epsilon$ of the start. Why that
# power, and what is it in other models?
#
# In a head scores and values are products of two matrices each, and all four must grow before the answer does:

# %% tags=["remove-input"]
show_attention(
    tokens=(r"z_i = (x_i, y_i)", "A pair of the prompt."),
    scores=(r"(K z_i)^\top Q z_q", "Two factors, K and Q."),
    weights=(r"\mathrm{smax}(\cdot)", "Even, as long as the scores are small."),
    values=(r"O V z_i", "Two factors, O and V."),
    answer=(r"\hat y_q", "Four factors must grow together."),
)

# %% [markdown]
# Near zero a loss is a polynomial in the weights. Keep its lowest terms after the constant; let $p$ be their degree. If they are negative in some direction, gradient flow leaves along them: a product
# of $p$ factors that must grow *together*. For $p > 2$ a start $b$ times smaller takes the same path, $b^{p-2}$ times as slowly. For $p = 2$ the flow is linear: sizes grow as $e^{\nu t}$ at some
# rate $\nu$, and that start waits $\log b / \nu$ longer. A factor is a matrix of that product that starts small: one used twice counts twice, one that is held does not count. So the wait $T$ grows as
# a logarithm for two factors, and as a power for more:
#
# $$\begin{aligned} T &\sim \log \tfrac{1}{\epsilon} & (p &= 2), \\ T &\sim \epsilon^{-(p-2)} & (p &> 2). \end{aligned}$$

# %% [markdown]
# The smallest case is a product of $p$ small numbers that should be one:


# %% mystnb={"image": {"alt": "Waits of products of two, three and four factors, on logarithmic axes: with every halving of the start the second doubles and the third quadruples."}}
def wait(p, size, rate=0.02):
    """Time until the product of p equal factors is one half, under gradient flow on (1 - product)^2 / 2."""
    u, steps = size, 0
    while u**p < 0.5:
        u += rate * (1 - u**p) * u ** (p - 1)
        steps += 1
    return rate * steps


factors, sizes = (2, 3, 4), (0.1, 0.05, 0.025)  # change me: factors (2, 3, 5)
assert min(factors) > 1, "give two factors or more: one alone never waits"
waited_for = {f"p = {p}": [round(wait(p, size), 1) for size in sizes] for p in factors}
fig, ax = style.figure(1, height=2.2)
for (name, times), p in zip(waited_for.items(), factors, strict=True):
    (line,) = ax.semilogy(sizes, times, "o-", color=draw.DEGREES.get(p))
    *_, before, last = times
    grown = f"+ {last - before:.1f}" if p == 2 else f"× {last / before:.1f}"
    place = {"xytext": (3, 5), "textcoords": "offset points", "ha": "right"}
    label = f"{p} factors ({name}): {grown}"
    ax.annotate(label, (sizes[-1], last), color=line.get_color(), **place)
ax.set(xlabel="size of the start (smaller →)", ylabel="wait", xlim=(0.11, 0.023))
ax.grid(False)
ax.set_ylim(top=4 * max(max(times) for times in waited_for.values()))
ax.set_title("growth of the wait with the last halving")
style.log_ticks(ax, "x", sizes)
style.show()
waited_for

# %% [markdown]
# *Each halving of the start adds a constant to the wait of two factors, doubles that of three and quadruples that of four.* Try other sizes:

# %% tags=["hide-input"]
show_model(waiting_time())

# %% [markdown]
# This law is not new. Deep linear networks wait in this way (Saxe, McClelland and Ganguli 2019; Jacot and others 2021); for deep nonlinear networks Rawal and DeWeese (2026) derive
# $\epsilon^{-(r-2)}$ with $r$ layers; for models of one hidden direction $p$ is called the information exponent (Ben Arous, Gheissari and Jagannath 2021) or the leap (Abbe, Boix-Adsera and
# Misiakiewicz 2023). New here: one count for attention models of five papers, the constants, and what chance, batches and decay do to them. The count depends on the symmetry of the prompts as much
# as on the model. (Associative recall is from {cite}`recall2025`, heads from {cite}`he2025`, the sticky chain from {cite}`agarwal2025`, GD block and Trained TF from {cite}`wang2025`.)
#
# *Heads* are softmax attention with all four matrices free, *linear attention* is the same without a softmax, and *reduced heads* have two numbers each. The
# *sticky chain* is a classifier of a Markov chain that often stays where it is. A *GD block* takes a gradient step for categories by construction; *Trained TF* has the same shape and free matrices, and
# with *embeddings held* only the vectors of its classes stay fixed. $E$ is an embedding, $P$ the output matrix of Trained TF. The *degree* of a model is its number $p$.
#
# | Model | p | Measured (error) | Factors that must grow together | Prompts |
# |---|---|---|---|---|
# | associative recall, order 3, 2 heads | 3 | {glue:text}`stages/recall/degree` ({glue:text}`stages/recall/degree_se`) | $w$, $\beta$, $\beta$ | mean over all sequences |
# | two reduced heads | 2 | {glue:text}`stages/reduced/degree` ({glue:text}`stages/reduced/degree_se`) | $\omega$, $\mu$ | regression, $d = 2$, 12 examples, 32 prompts |
# | two heads | 4 | {glue:text}`stages/heads/degree` ({glue:text}`stages/heads/degree_se`) | $Q, K, V, O$ | the same |
# | linear attention, 2 heads | 4 | {glue:text}`stages/linear/degree` ({glue:text}`stages/linear/degree_se`) | $Q, K, V, O$ | the same |
# | two heads, two tasks | 4 | {glue:text}`stages/tasks/degree` ({glue:text}`stages/tasks/degree_se`) | $Q, K, V, O$ | the same, two answers |
# | one head between an embedding and a read-out, width 4 | 8 | {glue:text}`stages/layer/degree` ({glue:text}`stages/layer/degree_se`) | read-out, $O$, $V$, $E$; $Q$, $K$, $E$, $E$ | the same, 4 prompts |
# | sticky chain, one head | 2 | {glue:text}`stages/chain/degree` ({glue:text}`stages/chain/degree_se`) | $W_O$, $W_V$ | one sequence of 60 symbols of 4 kinds |
# | GD block | 2 | {glue:text}`stages/descent/degree` ({glue:text}`stages/descent/degree_se`) | embeddings read, embeddings written | categories, $d = 2$, 8 examples, 5 classes, 32 prompts |
# | Trained TF, embeddings held | 2 | {glue:text}`stages/known/degree` ({glue:text}`stages/known/degree_se`) | $P$, $W_V$ | the same |
# | Trained TF | 4 | {glue:text}`stages/trained/degree` ({glue:text}`stages/trained/degree_se`) | $P$, $W_V$, embeddings twice | the same |
#
# The column *Measured* needs no fit: waits at sizes $\epsilon, \epsilon/b, \epsilon/b^2$ ([which](#what-the-loss-says-before-any-flow)) have differences whose ratio is $b^{p-2}$. Its error holds the spread over draws and
# how far the degree still moves with the size. All ten models follow gradient flow, and all trained parameters
# start small. Each prompt of regression and categories comes with its *mirror images*, the same prompt with signs turned; without them it is *plain*.

# %% mystnb={"image": {"alt": "Waits of all models against how many times smaller the start is, on dotted laws: powers 6, 2 and 1 for eight, four and three factors, and a logarithm for two."}} tags=["hero", "hide-input"]
style.show(draw.waits(found), of=[waited])

# %% [markdown]
# *How long nothing happens: a start ten times smaller makes two factors wait a little longer, three ten times, four a hundred times. From small starts each model follows the dotted law of its number of
# factors, the small matrices that must grow together; those of two (blue) are reduced heads, sticky chain, GD block, and Trained TF with its embeddings held. Both axes are relative
# to the model's largest start. Means over {glue:text}`draws` draws of prompts, embeddings and starts.*

# %% tags=["remove-input"]
record.verdict("crossing/q-waits")

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### What the loss says before any flow
#
# A program can count in our place. It looks for the direction $v$ in which the loss falls most on a small sphere: $L(0) - L(rv) = s\,r^p$.
#
# Along $v$ the flow is radial, $\dot r = p\,s\,r^{p-1}$, so $p$ and $s$ give the constant of the law as well. A start $b$ times smaller than $r$ waits longer by
#
# $$\frac{\log b}{2s} \quad (p = 2), \qquad \frac{b^{p-2} - 1}{p\,(p-2)\,s\,r^{p-2}} \quad (p > 2).$$
#
# For $p = 2$ this holds from every start, as $2s$ is the largest eigenvalue of $-\nabla^2 L(0)$: from the random directions of the figure
# above the growth is {glue:text}`escape/random` of the predicted one (median).

# %% tags=["hide-input"]
escaped = escape.longer_waits(
    crossing.results("escapes", profile, device),
    crossing.results("residual_waits", profile, device),
)
record.all(escape.constant_values(escaped, found))
record.all(escape.decay_values(crossing.results("thresholds", profile, device)))
escape.table(escaped)

# %% [markdown]
# No prediction is off by more than {glue:text}`escape/worst`. Four models were chosen because a count of the factors between prompt and answer gets them wrong; a count of layers also
# misses that Trained TF uses its embeddings twice. A **residual stream** and **layer norm** (last rows, embedding held) change no count: the stream alone tells nothing on symmetric prompts, and
# normed tokens are other fixed tokens. Five factors were predicted: read-out, $O$, $V$, $K$ and $Q$. **Weight decay** $\lambda$ stops the flow where $p\,s\,r^{p-2} < \lambda$: smaller starts never leave.

# %% tags=["remove-input"]
record.verdicts("q-count", "q-constant", "q-decay")

# %% [markdown]
# On $N$ random prompts answers correlate with the context's mean, $c = E[y_q \bar z]$, and outputs and values fit that at the rate $2|c|$. From Gaussian moments,
# $E|c|^2 = (d + 1 + 2/d) / (L N)$. So the wait is about $\min(C \epsilon^{-2}, \sqrt N \log \frac 1\epsilon)$: below sizes of order $N^{-1/4}$ the second is less. From the smallest start the wait is
# {glue:text}`chance/taken` of that on symmetric prompts ($N$ from 32 to 32,768, fourfold each). On many prompts that fit lowers the loss too little to end the wait. Queries and keys then grow at
# a rate $\lambda_2$ of their own, the largest singular value of their gradient once $OV = E[\bar z \bar z^\top]^{-1} c$, and each halving adds $\log 2\,(1/2|c| + 1/\lambda_2)$. Where the size decides
# between power and chance, both grow: with $O = V = y$, $Q = K = z$ the flow $\dot y = (z^2 + c)\,y$, $\dot z = y^2 z$ keeps $y^2 - z^2 - 2c \log z$, so
#
# $$T = \int_0^{\log 1/\epsilon} \frac{ds}{\epsilon^2 e^{2s} + 2cs},$$
#
# the dashed law of the model in the page above. Under **SGD** each batch of $B$ prompts pulls another
# way, and log-sizes diffuse by one in $1/(\eta\,2|c|)^2 \propto B/\eta^2$ steps. Waits longer than that can bend below the power.

# %% mystnb={"image": {"alt": "Wait against the size of the start for three numbers of prompts: all stay far below the law of symmetric prompts, and fewer prompts wait less."}} tags=["hide-input"]
by_chance = crossing.results("chance_waits", profile, device)
by_noise = crossing.results("noisy_waits", profile, device)
record.all(chance.chance_values(by_chance, chance.COUNTS[profile]))
record.all(chance.noisy_values(by_noise))
style.show(draw.chance(by_chance, chance.COUNTS[profile]), of=[by_chance])

# %% [markdown]
# *The fewer prompts are drawn, the earlier two heads leave: at the rate of chance (solid lines: $\log(1/\epsilon)$ over the rate, from the last point), where symmetric prompts would wait as the dotted
# power.*

# %% tags=["remove-input"]
record.verdicts("q-waits-chance", "q-waits-noise")

# %% [markdown]
# **Adam** takes a step $\eta\, g / (|g| + \epsilon_A)$, up to its memory. While gradients are larger than its guard $\epsilon_A$, steps have a fixed size: the wait is the way to the fall over
# $\eta$, whatever the start. Once gradients are smaller, from sizes below $(\epsilon_A / ps)^{1/(p-1)}$, it is gradient flow at the rate $\eta / \epsilon_A$, and the law of waiting is back. **A standard start** is not small in this sense. Two layers with residuals and norms ($d = 5$, 40 examples, 64 symmetric
# prompts) start with read-out, $O$, $V$, $K$ and $Q$ at 1, 0.7 and 0.49 of PyTorch's default. They wait {glue:text}`standard/waits`, a degree of {glue:text}`standard/degree` where small starts show 5.

# %% tags=["remove-input"]
adam = crossing.results("adam_waits", profile, device)
record.all(escape.adam_values(adam, escaped))
standard = crossing.results("standard_starts", profile, device)
record.all(escape.standard_values(standard, profile))

# %% [markdown]
# ### In ordinary training
# **Plain SGD**, with 64 fresh prompts in every step at rate 0.05, shows a degree that falls from halving to halving of the start. **Past the first fall**, Trained TF stays at a second plateau, where only queries and keys are left to grow. Of the {glue:text}`stages/second/draws` draws that leave it,
# {glue:text}`stages/second/share` show the degree that this predicts.
#
# | Degree | predicted | measured | standard error |
# |---|---|---|---|
# | two heads, plain SGD, first, second and third halving from 0.1 | 4, 4, 4 | {glue:text}`stages/sgd/degrees` | {glue:text}`stages/sgd/degrees_se` |
# | the same, over all | 4 | {glue:text}`stages/sgd/degree` | {glue:text}`stages/sgd/degree_se` |
# | Trained TF, second plateau, median draw | 2 | {glue:text}`stages/second/typical` | {glue:text}`stages/second/typical_se` |
#
# Two things shorten the wait. The first is **chance**. Among 128 prompts drawn once, the answer happens to correlate with the mean of the context. Values and outputs, two factors, fit
# this, so the wait becomes logarithmic: the degree belongs to the sample. The second is the **optimiser**: Adam's steps have a fixed size.

# %% tags=["hide-input"]
stochastic = crossing.results("sgd_waits", profile, device)
record.all(chance.sgd_values(stochastic, profile))
record.all(waits.second_values(crossing.results("second_jump", profile, device)))
record.verdicts("q-waits-sgd", "q-waits-second", "q-waits-few", "q-waits-adam")

# %% [markdown]
# On one set of symmetric prompts, from a start an eighth as large, Adam needs {glue:text}`stages/adam/growth` times the steps (in [the book's own draw](../book/how_to_read.md)) and gradient flow {glue:text}`stages/adam/flow` times
# the time.
#
# Two softmax heads, trained in the page:

# %% tags=["hide-input"]
show_model(train_waits(LinearRegression()))

# %% tags=["hide-input"]
SIZES = (0.1, 0.05, 0.025, 0.0125)


path = cache(waits.loss_path)


def frame(heads, size):
    return draw.path({each: path(heads, each) for each in SIZES}, heads, size)


show(
    frame,
    [
        Slider("heads", values=(1, 2, 4), label="heads"),
        Slider("size", values=SIZES, label="size of the start"),
    ],
    title="The wait of softmax heads",
    description="The smaller the start, the nearer each halving comes to a wait four times as long (arrows), whatever the number of heads. Loss along gradient flow on one set of prompts; the size of the start picks the coloured curve. Try: one head and four; size 0.1, which is not small.",
)

# %% [markdown]
# ## Routing by advantage
#
# {cite}`agarwal2025` says that the gradient in a score $s_i$ is minus its attention times its advantage, the bracket: $\partial L / \partial s_i = -\alpha_i (\sum_j \alpha_j b_j - b_i)$ with
# $b_i = \partial L / \partial \alpha_i$.
# This is the derivative of softmax, so it holds on every softmax model. Does it hold for all weights that sum to one?

# %% tags=["hide-input"]
record.all(rates.routing_values(draws))
record.verdict("crossing/q-routing")

# %% [markdown]
# It needs softmax. Other activations whose weights sum to one keep the mean but lose the factor $\alpha_i$: with squared scores the law misses by {glue:text}`routing/square` of the largest gradient.
# Linear attention keeps neither.
#
# ## Two time scales
#
# {cite}`agarwal2025` says of one classifier, trained by gradient descent, that attention settles early while values go on, like the two steps of expectation-maximisation. For other models the count of factors gives a
# prediction. Where values can begin to lower the loss without queries and keys, they have a head start. Where all four matrices of a head must grow together, none has.

# %% mystnb={"image": {"alt": "Dots for every draw: time of attention over time of values for two heads, sticky chain and Trained TF, with equal rates and with queries and keys ten times faster."}} tags=["hide-input"]
style.show(draw.leads(ahead), of=[followed])

# %% [markdown]
# *At equal rates attention does not lead. Time at which attention is half-way, divided by the time at which values are, on the way from a small start until a quarter of the loss is gone. Faint bars:
# {glue:text}`timing/draws` draws (left out, as their training stops before that: {glue:text}`timing/passed_over`); large marks: geometric means. Orange: queries and keys trained ten times faster.*

# %% tags=["remove-input"]
record.verdict("crossing/q-timing")

# %% [markdown]
# A control: ten times the rate on queries and keys must
# bring attention forward. Mean logarithm of the ratio of the two times (negative: attention first; in [the book's own draw](../book/how_to_read.md)):
#
# | Model | Equal rates | Queries and keys ten times faster | Brought forward by (standard error) |
# |---|---|---|---|
# | two heads | {glue:text}`timing/heads` | {glue:text}`timing/heads_quicker` | {glue:text}`timing/heads_gain` ({glue:text}`timing/heads_gain_se`) |
# | sticky chain | {glue:text}`timing/chain` | {glue:text}`timing/chain_quicker` | {glue:text}`timing/chain_gain` ({glue:text}`timing/chain_gain_se`) |
# | Trained TF | {glue:text}`timing/known` | {glue:text}`timing/known_quicker` | {glue:text}`timing/known_gain` ({glue:text}`timing/known_gain_se`) |
#
# In two heads neither comes first; in the sticky chain and in Trained TF values do. In Trained TF they do even with queries and keys ten times faster. So the test can hardly find
# attention first there, and Trained TF is not judged. The faster rates bring {glue:text}`timing/known_forward` of its draws forward.
#
# ## Ten times the rate on values
#
# If values lag, speed them up: with ten times the rate on values, the sticky chain's classifier needs fewer steps, says {cite}`agarwal2025`. But ten times the rate on other matrices may do the same, and
# so may one larger rate for all. We compare the three at many base rates, by plain gradient descent.

# %% mystnb={"image": {"alt": "Ratios of steps for two heads, linear attention, three layers, sticky chain and Trained TF, with intervals over seeds: values and outputs ten times faster, and queries and keys ten times faster. Left over the plain rate, the best uniform rate marked; right over the best uniform rate."}} tags=["hide-input"]
style.show(draw.rates(raced), of=races.values())

# %% [markdown]
# *At a low base rate any factor of ten saves steps, and one larger rate for all (diamonds) saves more. At their best base rates, quicker values and outputs (discs) stay out of the grey region, where they
# would be twice as fast. Large marks: geometric means and 95 % intervals over {glue:text}`rates/seeds` seeds, each at the base rate that is best for the other seeds.*

# %% tags=["remove-input"]
record.verdict("crossing/q-rates")

# %% [markdown]
# We say yes only where values gain more than queries and keys do, and halve the steps of the best rate for all. Quicker queries and keys (squares) may save more: over the best rate for all, a factor
# {glue:text}`rates/deep/saved` with *three layers* (residual, of two softmax heads each) and {glue:text}`rates/known/saved` with Trained TF.

# %% [markdown]
# ## Signed pairs
#
# On regression two softmax heads become a pair. One adds the answers of examples like the query, the other subtracts those of examples unlike it, and their output weights $\mu$ sum to zero. What is
# left is a step of descent from which the mean is taken out. Does this need a bare model, five covariates and forty examples? Here are the four heads of {cite}`nagy2026`, with an embedding and a
# skip connection, and two heads at other sizes or trained without Adam, {glue:text}`pairs/runs` runs each.

# %% mystnb={"image": {"alt": "Dots for every run of six models. Left: outputs of four heads behind an embedding cancel in all runs, those of linear attention in none, those of two heads in most runs with ten covariates, with ten examples and under plain gradient descent, and in none on labels with a mean. Right: a debiased step leaves less than the plain one of all softmax models, and more of linear attention."}} tags=["hide-input"]
trained_pairs = {
    name: crossing.results(name, profile, device) for name in heads_as_steps.TASKS
}
heads = heads_as_steps.pairs(trained_pairs)
record.all(heads_as_steps.pair_values(heads))
style.show(draw.signed_pairs(heads), of=trained_pairs.values())

# %% [markdown]
# *Where labels have no mean, heads of both signs (blue) cancel and remove the covariates' mean; on labels with a mean (last row) they pass the labels' mean on. A dot is a run. First panel: how far
# the $\mu$ of its heads are from cancelling. Second: what a debiased step leaves of its answers, over what a plain step leaves.*

# %% tags=["remove-input"]
record.verdicts("q-pairs", "q-pairs-step", "q-pairs-always", "q-pairs-affine")

# %% [markdown]
# Pairs do not always form.
#
# | Two heads | runs with heads of both signs |
# |---|---|
# | ten covariates | {glue:text}`pairs/wide/both_share` |
# | ten examples | {glue:text}`pairs/short/both_share` |
# | plain gradient descent | {glue:text}`pairs/descent/both_share` |
# | labels with a mean, 20,000 steps (others: 40,000) | {glue:text}`pairs/affine/both_share` |
#
# The comparison with the plain step is needed. A debiased step alone leaves {glue:text}`pairs/embedded/left` of the answers of the four heads unexplained, but it leaves
# {glue:text}`pairs/linear/left` of those of linear attention too, which subtracts no mean. With heads of one sign, on labels without a mean, it takes away at most {glue:text}`pairs/one_sign/taken` of what the plain step leaves.
#
# In the last row labels have a mean $a$ of their own in every prompt. There heads of both signs do not cancel. They pass $a$ on, with $\mu$ that sum to {glue:text}`pairs/affine/output`, and take a
# debiased step beside it. Heads of one sign are no measure for them: the plain step adds $a$ times the covariates' mean to its answers, and no softmax head does, as its weights sum to one.

# %% [markdown]
# ## Is a layer a step?
#
# Read the answer after every layer. If each layer moves it along the residual, towards the right answer, says {cite}`nagy2026`, the stack descends. But whatever comes nearer to an answer moves
# along the residual. Here are stacks that take gradient steps, in parameters or in functions, and others that do not: a kernel smoother that sharpens from layer to layer; running means of
# noisy answers; a descending stack read in another order; one that answers other prompts. Five statistics of the paper should tell them apart: the slope of updates on residuals, their $r^2$, how
# often their signs agree, how much the error falls, and whether the rate of its fall is the one that the slope predicts.

# %% mystnb={"image": {"alt": "Table of areas under the ROC curve: five statistics against four kinds of stacks that do not descend, coloured below 0.9; each column has a coloured cell."}} tags=["hide-input"]
by = descent.sample(200 if paper else 20)
record.all(descent.descent_values(by))
style.show(draw.areas(by))

# %% [markdown]
# *No statistic tells descent from every imitation: each column has a coloured cell, below 0.9. Area under the ROC curve: the chance that a descending stack scores higher than one of the row's kind. The last row is the worst of each column.*

# %% tags=["remove-input"]
record.verdict("crossing/q-roc")

# %% [markdown]
# Answers to other prompts are our own null model: easy to reject, except by the predicted rate. The
# paper compares with chance. A slope or an $r^2$ must pass the other rows before it shows that a language model descends.
#
# ### Rungs of the ladder
#
# Do all five together succeed? Make stacks of every kind on the prompts of the [ladder of language models](gradient_descent.py#a-ladder-of-our-own), lines of digits, and
# read them with noise; add imitations that know the right answer. A new stack's *score* is the share of descending ones among the 25 stacks with the nearest statistics. Then ask the same of the language
# models, and of their *controls*: models of the same size and seed that never saw a regression in training.

# %% mystnb={"image": {"alt": "Share of descending stacks among the nearest, for stacks of known kind and for every language model and its copy that never saw a regression."}} tags=["hide-input"]
rung = descent_ladder.judged(ladder.trained(profile, device), 1600 if paper else 140)
record.all(descent_ladder.ladder_values(rung))
style.show(draw.ladder(rung))

# %% [markdown]
# *Stacks that descend are told from their imitations; most language models have imitations or nothing near them. Bars: the middle half of new stacks of each kind. Discs: language models; open: their controls.*

# %% tags=["remove-input"]
record.verdicts("q-step-joint", "q-step-ladder")

# %% [markdown]
# On stacks made by hand the five together succeed: even for the hardest imitation the area is {glue:text}`rungs/area`. New stacks that descend score {glue:text}`rungs/descending` or more on
# average, the nearest imitation {glue:text}`rungs/imitations`. The classifier cannot be applied to the language models. The size with the highest mean score ({glue:text}`rungs/highest_size`) scores {glue:text}`rungs/highest` or more, the one with
# the lowest {glue:text}`rungs/ladder` on average, the controls {glue:text}`rungs/twins`. But the median model lies farther from all stacks than {glue:text}`rungs/typical_apart` of new stacks do, and each of those
# that score highest farther than at least {glue:text}`rungs/highest_apart`. So far away the nearest stacks say nothing.
#
# ## Descent with which kernel?
#
# One step of functional descent from zero answers $\eta \sum_i y_i\, k(x_i, x_q)$. Which kernel $k$ do trained heads use? Width and rate are fitted on half of the prompts; what the
# step leaves unexplained is read on the others.

# %% mystnb={"image": {"alt": "Share left unexplained by the best step with each of six kernels, for one head, two heads and linear attention, logarithmic."}} tags=["hide-input"]
isotropic = he2025.results("isotropic", profile, device)
left = heads_as_steps.shares(
    with_both_signs(isotropic), heads_as_steps.GROUPS, LinearRegression()
)
record.all(heads_as_steps.kernel_values_of(left))
style.show(draw.kernels(left), of=[isotropic])

# %% [markdown]
# *One softmax head and two take steps with different kernels: the one whose step fits a model best is coloured, the next best named. What the best step with each kernel leaves unexplained of the answers, one mark a run.*

# %% tags=["remove-input"]
record.verdict("crossing/q-kernel")

# %% [markdown]
# One softmax head takes a step with the softmax kernel; the next best of the paper's five leaves {glue:text}`kernel/one_second`. Linear
# attention takes one with the linear kernel (the next best of the five leaves {glue:text}`kernel/linear_second`), two softmax heads one with the {glue:text}`kernel/two_best` kernel. The linear
# kernel on centred covariates leaves {glue:text}`kernel/linear_centred` of linear attention, and of two softmax heads least of all ({glue:text}`kernel/two_centred`).
#
# ## What coincides
#
# Some of these laws are one law in different notation. Each row is one computation, and says how the papers' letters must be matched. Letters are those of
# each paper's chapter ([He](linear_regression.py), [Agarwal](attention_gradients.py), [Recall](associative_recall.py), [Nagy](gradient_descent.py), [Wang](categorical_data.py)); the
# [dictionary](../book/notation.md#the-attention-layer) translates them.
#
# {.notation}
# | One computation | In the papers' letters |
# |---|---|
# | a step of descent from zero: *exact* | He: $\frac{\eta}{L} \sum_\ell y_\ell\, x_\ell^\top x_q$. Wang: linear kernel, $\alpha = \eta$. Nagy: von Oswald's layer, $v_o q_k = \eta / L$. Linear attention: $KQ$ reads covariates, $OV = \eta$ the response |
# | the same, debiased: *exact* | He: $x_\ell - \bar x$ for $x_\ell$. Wang: linear kernel on centred keys |
# | one softmax head: *exact* | He, $H = 1$: $\mu \sum_\ell \mathrm{smax}(\omega\, x_\ell^\top x_q)\, y_\ell$. Wang: normalised kernel, $\gamma = \omega$, $\alpha = \mu$. Recall, layer 2: keys are what the first layer found (rows of $\mathbf R$), the query the last symbols, each times $\beta_h^2$, values the responses $e_{f(\pi_t)}$, $\mu = 1$ |
# | what training does to values: *exact* | Agarwal: $\sum_{ij} \alpha_{ij}\, u_i\, x_j^\top$, $u_i$ the gradient at answer $i$; here $\alpha$ of the head, one position $i$ that asks in each prompt, $x_j = z_\ell$, a pair of the prompt. He: gradient in $OV$, with $u = 2\,(\hat y_q - y_q)$ |
# | two opposite heads and the debiased step: *only near* | He: $\omega = \pm\gamma$, $\mu = \pm \eta / 2\gamma$; the distance falls as $\gamma^2$ |
#
# Each row is a test (`tests/crossing/test_coincide.py`) that computes either side by its own paper's functions and sets beside it a pair that only looks alike.
#
# ## What to take away
#
# The degree of the loss decides when learning begins: on symmetric prompts a count of factors is enough. Values move first where they help alone; elsewhere all matrices move together. In the first
# quarter of the loss, from small starts, attention does not settle first [on these models](#two-time-scales). On regression, one trained layer takes a step with a kernel, one softmax head with another than two:
# heads of both signs, where they form, remove the mean that softmax brings in. Whether deeper models take several such steps cannot be read from slopes.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Open questions
#
# Each can be taken up with a command of this book; the chapter then judges what comes out.
#
# - **What decides whether both signs come out?** With ten covariates, and under plain gradient descent, some starts end with heads of one sign and stay there. Does a smaller start, another rate or a third head help? Change the
#   runs in `papers/crossing/heads_as_steps.py`, then `iclbook train crossing --only pairs_wide --fresh` and `iclbook run crossing`.
# - **Which statistic tells descent from its imitations?** Add one to `scores` in `papers/crossing/descent.py`, and `iclbook run crossing` sets it against all four kinds. One
#   that passes could then be asked of a language model: `iclbook probe --model DIR --probe alignment --out FILE` reads any in a local folder.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Exercises
#
# **1. Count the factors.** A deep linear network answers with the product of $p$ numbers. From starts of size $\epsilon$, how does the wait grow for $p = 3$? Predict it, then measure
# it with this chapter's own rule.


# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
def three_factors(x):  # loss (1 - x1 x2 x3)^2 and its gradient
    rest = 1 - x.prod()
    return float(rest**2), -2 * rest * np.array([x[1] * x[2], x[0] * x[2], x[0] * x[1]])


deep = Landscape(
    lambda seed: np.random.default_rng(seed).uniform(0.5, 1.5, 3), three_factors
)
times = waits.waits(deep, [0.05 / 3**k for k in range(4)], [0, 1])
print("waits at sizes that fall by 3:", times.round(1).tolist())
assert np.allclose(
    times[:, -1] / times[:, -2], 3, rtol=0.05
)  # T ~ 1 / eps: three times the size, a third of the wait
assert abs(waits.degree(times, 3).value - 3) < 0.05

# %% [markdown]
# **2. A warm start.** Let values and outputs of two softmax heads start at size one, and only queries and keys be small. What is the degree now, and how long is the wait?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
two = softmax_heads(2, FIRST)
drawn = two.start(FIRST)
speeds = []
for size in (
    1e-2,
    1e-3,
    1e-4,
):  # how fast the small ones move at the start, against their size
    theta = np.where(two.routing, size, 1.0) * drawn
    speeds.append(np.linalg.norm(two.gradient(theta)[two.routing]) / size)
print("speed of queries and keys over their size:", np.round(speeds, 3).tolist())
# Only Q and K are left as factors: degree 2. They grow at a rate that does not depend on their size, so the wait is logarithmic.
assert np.ptp(speeds) < 0.1 * np.mean(speeds)

# %% [markdown]
# **3. An imitation.** Make read-outs of eight layers that no layer computes by descent, and whose share of updates with the residual's sign is as large as that of stacks that descend.

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
rng = np.random.default_rng(0)
prompts = descent.draw(rng)
share = np.linspace(0, 1, descent.LAYERS + 1)
# Knows the answer, up to noise, and reads out equal parts of the way to it
noise = 0.03 * rng.standard_normal(len(prompts.answer))
whispered = (prompts.answer + noise)[:, None] * share
true = descent.DESCEND["parameters"](prompts, descent.LAYERS, 0.0, rng)
signs = [alignment(read, prompts.answer).signs for read in (whispered, true)]
print(
    f"share of updates with the residual's sign: imitation {signs[0]:.2f}, descent {signs[1]:.2f}"
)
assert signs[0] >= signs[1]

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Errata
#
# What the papers' statements lack on other models:
#
# - **The wait** {cite}`recall2025` is stated for starts with even attention, $w = 0$. It needs them: where attention begins by looking elsewhere, by more than $\beta$, then $\beta$
#   [dies out](associative_recall.py#the-conserved-quantity), and the parameters stay near the origin.
# - **Routing by advantage** {cite}`agarwal2025` is offered for mechanisms beyond softmax. Weights that sum to one [are not enough](#routing-by-advantage).
# - **Descent by layers** {cite}`nagy2026` is tested against chance. Each of its statistics is passed by [at least one imitation](#is-a-layer-a-step).

# %% [markdown]
# ## Every claim

# %% tags=["hide-input"]
record.table()
