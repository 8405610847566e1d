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
# Each paper found a law on a model and a task of its own. Two heads subtract the mean {cite}`he2025`. A layer is a step of gradient descent {cite}`nagy2026`, or of descent in a space of functions
# {cite}`wang2025`. Scores learn by advantage, and attention settles before values {cite}`agarwal2025`. What is learned comes in stages, after a wait that grows as the start shrinks
# {cite}`recall2025`. This book has all five models, so each law can be tried on the others. Some travel further than their papers say. One predicts, for ten models, how long nothing seems to
# happen. Others hold for one model only, or rest on statistics that imitations pass as well.
#
# All verdicts here are answers to questions of our own. (All letters: [Notation and glossary](../book/notation.md).)

# %% tags=["parameters", "remove-cell"]
profile = "paper"
device = "auto"

# %% tags=["hide-input"]
from functools import cache

import numpy as np

from iclbook.claims import Recorder
from iclbook.drawing import style
from iclbook.papers import crossing, he2025
from iclbook.papers.crossing.figures import steps as draw_steps
from iclbook.papers.crossing.figures import waits as draw
from iclbook.papers.crossing.measures import (
    descent,
    descent_ladder,
    heads_as_steps,
    rates,
    time_scales,
    waits,
)
from iclbook.papers.crossing.measures.landscape import Landscape
from iclbook.papers.crossing.measures.models import FIRST, softmax_heads
from iclbook.papers.crossing.waits_in_page import train_waits
from iclbook.papers.he2025.circuits import with_both_signs
from iclbook.papers.nagy2026 import ladder
from iclbook.papers.nagy2026.probe_statistics import alignment
from iclbook.sliders import Slider, show, show_model
from iclbook.tasks import LinearRegression

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
ahead = time_scales.kept_leads(followed)
record("timing/draws", len(followed["heads/equal"]))
record.all(time_scales.timing_values(ahead))
races = {
    name: crossing.results(f"rates_{name}", profile, device) for name in rates.TRIALS
}
raced = {name: rates.of_results(results) for name, results in races.items()}
record.all(rates.rate_values(raced))


# %% [markdown]
# ## How long nothing happens
#
# Start attention from small weights, and for a while the loss does not move. In associative recall this wait grows as $1/\epsilon$ with the size $\epsilon$ of the start. Why that
# power, and what would it be elsewhere?
#
# Near zero a loss is a polynomial. Its lowest terms that can lower it say what must grow *together*. If the answer depends on a product of $p$ small factors, these terms have degree
# $p$, and gradient flow maps onto itself when sizes shrink by $b$ and times grow by $b^{p-2}$. So
#
# $$\begin{aligned} T &\sim \log \tfrac{1}{\epsilon} & (p &= 2), \\ T &\sim \epsilon^{-(p-2)} & (p &> 2). \end{aligned}$$

# %% [markdown]
# The smallest case is a product of $p$ small numbers that should be one:


# %%
def wait(p, size, rate=0.02):
    """Time until the product of p equal factors is one half, under gradient flow on (1 - product)^2 / 2."""
    u, steps = size, 0
    while u**p < 0.5:
        u += rate * (1 - u**p) * u ** (p - 1)
        steps += 1
    return rate * steps


{
    f"p = {p}": [round(wait(p, size), 1) for size in (0.1, 0.05, 0.025)]
    for p in (2, 3, 4)
}

# %% [markdown]
# Each halving of the start adds a constant to the wait for two factors, doubles it for three and quadruples it for four. Try it:

# %% tags=["hide-input"]
show_model(draw.waiting_time())

# %% [markdown]
# This scaling of homogeneous losses is not new: deep linear networks wait in this way (Saxe, McClelland and Ganguli 2019), and in single-index models $p$ is the information exponent (Ben Arous,
# Gheissari and Jagannath 2021) or the leap (Abbe, Boix-Adsera and Misiakiewicz 2023). {cite}`recall2025` calls its growth one of exponent 2, that is $p - 1$. New here: $p$ can be counted, for ten
# small models, and depends on the symmetry of the prompts as much as on the model. (Associative recall is {cite}`recall2025`'s, the heads {cite}`he2025`'s, the sticky chain {cite}`agarwal2025`'s;
# GD block and Trained TF are {cite}`wang2025`'s.)
#
# | Model | Prompts | Factors that must grow together | $p$ | Measured |
# |---|---|---|---|---|
# | associative recall, order 3, 2 heads | exact population | $w$, $\beta$, $\beta$ | 3 | {glue:text}`stages/recall/degree` |
# | reduced heads, 2 | regression, $d = 2$, 12 examples, 32 prompts | $\omega$, $\mu$ | 2 | {glue:text}`stages/reduced/degree` |
# | two heads | the same | $Q, K, V, O$ | 4 | {glue:text}`stages/heads/degree` |
# | linear attention, 2 heads | the same | $Q, K, V, O$ | 4 | {glue:text}`stages/linear/degree` |
# | two heads, two tasks | the same, two answers | $Q, K, V, O$ | 4 | {glue:text}`stages/tasks/degree` |
# | one head between an embedding and a read-out, width 4 | the same, 4 prompts | read-out, $O$, $V$, $E$; $Q$, $K$, $E$, $E$ | 8 | {glue:text}`stages/layer/degree` |
# | sticky chain, one head | one sequence of 60 symbols, 4 kinds | $W_O$, $W_V$ | 2 | {glue:text}`stages/chain/degree` |
# | GD block | categories, $d = 2$, 8 examples, 5 classes, 32 prompts | embeddings read, embeddings written | 2 | {glue:text}`stages/descent/degree` |
# | Trained TF, embeddings held | the same | $P$, $W_V$ | 2 | {glue:text}`stages/known/degree` |
# | Trained TF | the same | $P$, $W_V$, embeddings twice | 4 | {glue:text}`stages/trained/degree` |
#
# To measure $p$ no fit is needed. Waits at sizes $\epsilon, \epsilon/b, \epsilon/b^2$ have differences whose ratio is $b^{p-2}$. All ten models follow gradient flow, with all trained parameters
# small at the start; each prompt of regression and categories comes with its mirror images.

# %% mystnb={"image": {"alt": "Left: waits that grow as a logarithm, for reduced heads, sticky chain, GD block, Trained TF with known embeddings and two heads on plain prompts; all lie on one line. Right: waits that grow as powers 1, 2 and 6 of one over the size."}} tags=["hide-input"]
style.show(draw.waits(found), of=[waited])
record.verdict("crossing/q-waits")

# %% [markdown]
# *The waits grow as predicted, as a logarithm or as a power (dotted: slopes). The models of the table, and two heads on plain prompts; means over {glue:text}`draws` draws of prompts, embeddings and directions.*
#
# Does the law matter in ordinary training? **Plain SGD** obeys it: with 64 fresh prompts in every step, at rate 0.05 and from sizes 0.1 to 0.0125, two heads show the degree
# {glue:text}`stages/sgd/degree` (standard error {glue:text}`stages/sgd/degree_se`; predicted 4). Two things shorten the wait. The first is **chance**. The count assumed prompts whose symmetries are
# exact, as they are in an infinite sample. Among 128 prompts drawn once and for all, the answer happens to correlate with the mean of the context. Values and outputs alone, two factors, can fit
# that, and the wait becomes logarithmic: the degree then belongs to the sample, not to the task. The second is the **optimiser**. Adam takes steps of a fixed size however small the gradient is, so
# its wait hardly grows.

# %% tags=["hide-input"]
stochastic = crossing.results("sgd_waits", profile, device)
record.all(waits.sgd_values(stochastic, profile))
record.verdicts("q-waits-sgd", "q-waits-few", "q-waits-adam")

# %% [markdown]
# From a start an eighth as large, Adam needs {glue:text}`stages/adam/growth` times the steps and gradient flow {glue:text}`stages/adam/flow` times the time.
#
# Below, two softmax heads train in the page, by plain gradient descent on fresh prompts and by Adam. Four factors predict that each halving of a small start quadruples the wait.

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
    description="Loss along gradient flow on one set of prompts, from starts of four sizes. Halve the size and the wait is four times as long, whatever the number of heads.",
)

# %% [markdown]
# ## Routing by advantage
#
# The gradient in a score, says the law, is its attention times how far what it reads lies above the mean: $\partial L / \partial s_i = \alpha_i (b_i - \sum_j \alpha_j b_j)$. This is the derivative
# of softmax, so it must hold on every softmax model. Is it about softmax, or about weights that sum to one?

# %% tags=["hide-input"]
record.all(time_scales.routing_values(draws))
record.verdict("crossing/q-routing")

# %% [markdown]
# It is about softmax. Other activations whose weights sum to one keep the mean but lose the factor $\alpha_i$ (with squared scores the law misses by {glue:text}`routing/square` of the
# largest gradient), and linear attention has neither.
#
# ## Two time scales
#
# Attention settles early while values go on, like the two steps of EM: so says {cite}`agarwal2025` of one classifier trained by gradient descent. Whether it holds elsewhere can be said before
# looking. Where values alone begin to lower the loss ($p = 2$), they have a head start. Where all four matrices must grow together ($p = 4$), neither is favoured.

# %% mystnb={"image": {"alt": "Dots for every draw: time of attention over time of values for two heads, sticky chain and Trained TF, with equal rates and with queries and keys ten times faster."}} tags=["hide-input"]
style.show(draw.leads(ahead), of=[followed])
record.verdict("crossing/q-timing")

# %% [markdown]
# *At equal rates attention does not come first. Time at which attention is half-way over that for values, from small starts until a quarter of the loss is gone; {glue:text}`timing/draws` draws,
# {glue:text}`timing/passed_over` left out because the model rests before that.* A control: ten times the rate on queries and keys must bring attention forward. Mean logarithm of the ratio of the
# two times (negative: attention first):
#
# | Model | Equal rates | Queries and keys ten times faster | Brought forward by (standard error) |
# |---|---|---|---|
# | two heads | {glue:text}`timing/heads` | {glue:text}`timing/heads_quicker` | {glue:text}`timing/heads_gain` ({glue:text}`timing/heads_gain_se`) |
# | sticky chain | {glue:text}`timing/chain` | {glue:text}`timing/chain_quicker` | {glue:text}`timing/chain_gain` ({glue:text}`timing/chain_gain_se`) |
# | Trained TF | {glue:text}`timing/known` | {glue:text}`timing/known_quicker` | {glue:text}`timing/known_gain` ({glue:text}`timing/known_gain_se`) |
#
# In two heads neither leads; in the sticky chain and in Trained TF values do. In Trained TF attention does not lead even at ten times the rate, so its "no" means little: the measure could hardly
# have said yes.
#
# ## Ten times the rate on values
#
# If values lag, speed them up: at ten times the rate on values, the sticky chain's classifier needs fewer steps, says {cite}`agarwal2025`. But ten times the rate on anything may do that, and so may
# one larger rate for all. So here are three racers, plain gradient descent each, from equal starts on equal prompts: values and outputs ten times faster, queries and keys ten times faster, one rate
# for all. All run at many base rates. (Associative recall is left out: its values are not trained.)

# %% mystnb={"image": {"alt": "Ratios of steps for two heads, linear attention, three layers, sticky chain and Trained TF, with intervals over seeds: values and outputs ten times faster, and queries and keys ten times faster. Left over the plain rate, the best uniform rate marked; right over the best uniform rate."}} tags=["hide-input"]
style.show(draw.rates(raced), of=races.values())
record.verdict("crossing/q-rates")

# %% [markdown]
# *At a low base rate any factor of ten saves steps, and a larger rate for all (diamonds) saves more; the second panel has each at its best base rate. Geometric means and 95 % intervals over
# {glue:text}`rates/seeds` seeds, at the plain base rate, which is the lowest, and with each racer at its best; small marks: each seed, at the base rate that is best for the others.* A larger rate
# for all is drawn as diamonds. A verdict says yes only where values gain more than queries and keys do, and more than the best uniform rate. In a product of four factors, where nothing sets values
# apart, neither rule passes. Where the racers differ at their best, it can be the other way round: Trained TF with quicker queries and keys needs the steps of the best uniform rate divided by
# {glue:text}`rates/known/saved`.

# %% [markdown]
# ## A law on a model
#
# Three of the laws are tested on the same three models. Choose a law, and see what becomes of it from one model to the next. (Waits and time scales are asked on prompts made symmetric, rates on
# prompts as they are drawn.)
#
# Some pairs of a law and a model make no sense. Associative recall has its values given, so nothing can be said of when they settle or how fast they should learn. A single layer takes no two steps
# whose direction could be read. After a first layer, tokens are no longer in the coordinates that pairs and kernels are read in. Others are open: trained stacks and Trained TF layer by layer,
# preconditioned steps and ridge as rivals of the kernels, recurrent models, large starts.


# %% tags=["hide-input"]
def cell(law, model):
    return draw.law_on(law, model, found, ahead, raced)


show(
    cell,
    [
        Slider("law", "law", tuple(draw.LAWS), tuple(draw.LAWS.values())),
        Slider(
            "model", "model", draw.ACROSS, ("two heads", "sticky chain", "Trained TF")
        ),
    ],
    title="A law on a model",
    description="Try: each law on each model. Dotted: what the law predicts; dots: every draw or seed.",
    of=[waited, followed, *races.values()],
)

# %% [markdown]
# ## Signed pairs
#
# On regression two softmax heads become a pair. One adds the answers of examples like the query, the other subtracts those of examples unlike it, and their outputs sum to zero. What is left is a
# step of descent from which the mean is taken out. Does this need a bare model, five covariates and forty examples? Here are the four heads of {cite}`nagy2026`, with an embedding and a skip
# connection, and two heads at other sizes or trained without Adam, {glue:text}`pairs/runs` runs each.

# %% mystnb={"image": {"alt": "Dots for every run of five models. Left: outputs of four heads behind an embedding cancel in all runs, those of linear attention in none, those of two heads with ten covariates or ten examples in most, those of two heads under plain gradient descent in the last row. Right: a debiased step leaves less than the plain one of all softmax models, and more of linear attention."}} tags=["hide-input"]
trained_pairs = {
    name: crossing.results(name, profile, device) for name in heads_as_steps.TASKS
}
heads = heads_as_steps.pairs(trained_pairs)
record.all(heads_as_steps.pair_values(heads))
style.show(draw_steps.signed_pairs(heads), of=trained_pairs.values())
record.verdicts("q-pairs", "q-pairs-step", "q-pairs-always")

# %% [markdown]
# *Wherever heads of both signs form, they remove the mean. A dot is a run: how far the outputs of its heads are from cancelling, and what a debiased step leaves of its answers, over what the plain
# step leaves.* Pairs are not tied to two heads, nor to Adam, but they do not always come: heads of both signs come out in {glue:text}`pairs/wide/both` runs with ten covariates, in
# {glue:text}`pairs/short/both` on ten examples, and in {glue:text}`pairs/descent/both` under plain gradient descent. A share that a step leaves says little alone: on the short contexts of the four
# heads a debiased step leaves {glue:text}`pairs/embedded/left` of what they answer, and {glue:text}`pairs/linear/left` of what linear attention answers, which subtracts no mean. Beside the plain
# step the two fall apart. So do heads of one sign: softmax alone takes out a little of the mean, at most {glue:text}`pairs/one_sign/taken` of what the plain step misses.

# %% [markdown]
# ## Is a layer a step?
#
# Read the answer after every layer. If each layer moves it along the residual, the paper says, the stack descends. But much that comes nearer to an answer moves along the residual. Here are stacks
# of known kind. Some take gradient steps, in parameters or in functions. Others do not: a kernel smoother that sharpens from layer to layer; running means of noisy answers; a descending stack read
# in another order; one that answers other prompts.

# %% mystnb={"image": {"alt": "Table of areas under the ROC curve: five statistics against four kinds of stacks that do not descend."}} tags=["hide-input"]
by = descent.roc(descent.sample(200 if paper else 20))
record.all(descent.descent_values(by))
style.show(draw_steps.areas(by))
record.verdict("crossing/q-roc")

# %% [markdown]
# *No statistic tells descent from every imitation: the last row is the worst of each. Chance that a descending stack scores higher than one of each other kind; 0.5 is a coin toss.* A statistic is
# as good as its worst row. Answers of other prompts, our own shuffled null, are the easy row for all but the predicted rate, which they fool most. The paper has no such null; it compares with
# chance. A slope or an $r^2$ must pass the other rows before it shows that a language model descends.
#
# ### Rungs of the ladder
#
# Each statistic alone fails. All five together? Take stacks of every kind on the prompts of the [ladder of language models](gradient_descent.py#a-ladder-of-our-own), lines of digits
# read with noise, and some that know where to go. Judge a new one by its neighbours: of the 25 stacks with the most similar statistics, how many descend? Then ask the same of the
# ladder, and of its twins.

# %% mystnb={"image": {"alt": "Share of descending stacks among the nearest, for stacks of known kind and for every model of the ladder and its twins."}} tags=["hide-input"]
rung = descent_ladder.judged(ladder.trained(profile, device), 1600 if paper else 350)
record.all(descent_ladder.ladder_values(rung))
style.show(draw_steps.ladder(rung))
record.verdicts("q-step-ladder")

# %% [markdown]
# *Only the models of three layers stand among stacks that descend, and no twin does. Bars: the middle half of new stacks of each kind; discs: models of the ladder; open: their twins, which never
# saw a regression.* Together they do: {glue:text}`rungs/area` is the area for the hardest imitation, one that walks to an answer it knows. With one to three seeds per size, what the figure shows of
# models is an impression, not a verdict. And the models resemble none of our stacks: on average {glue:text}`rungs/apart` of new stacks lie nearer to their neighbours.
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
style.show(draw_steps.kernels(left), of=[isotropic])
record.verdict("crossing/q-kernel")

# %% [markdown]
# *The number of heads chooses the kernel. What the best step with each kernel leaves of the answers of trained heads, one mark a run.* One softmax head is a step with the softmax kernel; the next
# best kernel leaves {glue:text}`kernel/one_next`. Linear attention is one with the linear kernel (the next best leaves {glue:text}`kernel/linear_next`). Two heads change kernel: their difference is
# a step with the {glue:text}`kernel/two_best` one. Centred covariates, which no kernel of the five has, come nearer still ({glue:text}`kernel/two_centred` left).
#
# ## What coincides
#
# Some of these laws are one law in different notation. In the table each row is one computation. The [dictionary](../book/notation.md#the-attention-layer) translates query, key, score, weight,
# value, read-out, step size and kernel; what stands here is how they must be matched so that the answers agree.
#
# {.notation}
# | One computation | In the papers' letters |
# |---|---|
# | a step of descent from zero: *exact* | He: $\frac{\eta}{L} \sum_\ell y_\ell\, x_\ell^\top x_q$. Wang: linear kernel, $\alpha = \eta$. Nagy: von Oswald's layer, gain $v_o q_k = \eta / L$. Linear attention: $KQ$ reads covariates, $OV = \eta$ the response |
# | the same, debiased: *exact* | He: $x_\ell - \bar x$ for $x_\ell$. Wang: linear kernel on centred keys |
# | one softmax head: *exact* | He, $H = 1$: $\mu \sum_\ell \mathrm{smax}(\omega\, x_\ell^\top x_q)\, y_\ell$. Wang: normalised kernel, $\gamma = \omega$, $\alpha = \mu$. Recall, layer 2: keys are rows of $\mathbf R$, the query the last symbols, each times $\beta_h^2$, values $e_{f(\pi_t)}$, $\mu = 1$ |
# | what training does to values: *exact* | Agarwal: $\sum_{ij} \alpha_{ij}\, u_i\, x_j^\top$, here $\alpha$ of the head, one position $i$ that asks in each prompt, $x_j = z_\ell$. He: gradient in $OV$, with $u = 2\,(\hat y_q - y_q)$ |
# | two opposite heads and the debiased step: *only near* | He: $\omega = \pm\gamma$, $\mu = \pm \eta / 2\gamma$; the distance falls as $\gamma^2$ |
#
# Each row is a test (`tests/crossing/test_coincide.py`) that computes either side by its own paper's functions, to rounding, and sets beside it a pair that only looks alike, such as
# the kernel that is not normalised. So where He's head is judged above, Wang's step and Recall's head are judged as well.
#
# ## What to take away
#
# A common account of the five papers must explain the following. Degrees decide when things begin: on symmetric prompts that law needs nothing but a count of factors. Values move first where they
# help alone; elsewhere all move together. Two time scales do not appear in the first quarter of the loss, from small starts, [even in their own setting](#two-time-scales). What is learned in the
# end, on regression and in one layer, is a step with a kernel, and the number of heads chooses the kernel: heads of both signs, where they form, remove the mean that softmax brings in. Whether
# deeper models take several such steps cannot be read from slopes. The claims of the five papers that carry others, and these questions, are drawn [on the
# scoreboard](../book/scoreboard.md#claims-that-stand-on-claims).

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Open questions
#
# Each can be taken up with a command of this book; the chapter then judges what comes out.
#
# - **What decides whether both signs come out?** With ten covariates, and at home under plain gradient descent, some starts end with heads of one sign and stay there. Does a smaller start, another rate or a third head help? Change the
#   runs in `papers/crossing/measures/heads_as_steps.py`, then `iclbook train crossing --only pairs_wide --fresh` and `iclbook run crossing`.
# - **Which statistic tells descent from its imitations?** Add one to `scores` in `papers/crossing/measures/descent.py`, and `iclbook run crossing` sets it against all four kinds. One
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
assert abs(waits.degree(times, 3)[0] - 3) < 0.05

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
guess = prompts.answer + 0.03 * rng.standard_normal(
    len(prompts.answer)
)  # somebody whispers the answer
whispered = guess[:, None] * share  # and the read-out walks to it in even strides
true = descent.parameter_descent(prompts, rng)
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
#   dies out, and the parameters stay near the origin.
# - **Routing by advantage** {cite}`agarwal2025` is offered for mechanisms beyond softmax. Weights that sum to one [are not enough](#routing-by-advantage).
# - **Descent by layers** {cite}`nagy2026` is tested against chance. Imitations that come nearer to the answer [pass the same statistics](#is-a-layer-a-step).

# %% [markdown]
# ## Every claim

# %% tags=["hide-input"]
record.table()
