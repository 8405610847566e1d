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
# # Gradient Dynamics of Attention
# *A reproduction of Agarwal, Dalal and Misra, "Gradient Dynamics of Attention: How Cross-Entropy Sculpts Bayesian Manifolds" {cite}`agarwal2025`.*
#
# What does one step of gradient descent do to an attention head? This paper writes the gradient of cross-entropy with respect to every part of a single head in closed form, and reads two laws in
# it. *Routing*: a query moves attention towards the keys whose values would lower its loss more than average. *Content*: a value moves against the weighted sum of the errors of the queries that use
# it. It likens the two to the steps of expectation-maximisation (EM), which shares data among sources (E), then moves the sources (M), and proposes a larger learning rate for values.
#
# **What came out.** The closed forms are exact. What the paper says in words is true where it restates a formula, and often false as a prediction, once all weights move at once. A larger rate for
# the values does make training faster, but so does a larger rate for everything. (All letters: [Notation and glossary](../book/notation.md).)

# %% tags=["parameters", "remove-cell"]
profile = "paper"
device = "auto"

# %% tags=["hide-input"]
import numpy as np
import torch

from iclbook.claims import Recorder
from iclbook.drawing import style
from iclbook.drawing.diagram import show_attention
from iclbook.papers.agarwal2025 import (
    chain_runs,
    closed_forms,
    closed_forms_checked,
    fair_trial,
    figure_9,
    figures_1_to_5,
    figures_6_to_8,
    results,
    section_8,
    section_9,
    sentences,
    sliders,
    studies,
    toy_runs,
    wind_tunnel,
)
from iclbook.papers.agarwal2025.runs import PAPER_SEEDS, SMALL_START
from iclbook.tasks.sticky_chain import StickyChain

style.use()
paper = profile == "paper"
record = Recorder("agarwal2025", profile)

# %% [markdown]
# ## The gradients
# A head turns inputs $x_j$ into queries $q_i$, keys $k_j$ and values $v_j$. A position $i$ asks, and every position $j$ answers:

# %% tags=["remove-input"]
show_attention(
    tokens=(r"x_j", "The inputs; queries, keys and values are linear in them."),
    scores=(r"s_{ij} = q_i \cdot k_j / \sqrt{d_k}", "How well key j fits query i."),
    weights=(r"\alpha_{ij}", "The softmax of the scores: positive, with sum one."),
    values=(r"v_j = W_V x_j", "What position j passes on."),
    answer=(
        r"g_i = \sum_j \alpha_{ij} v_j",
        "The context; the logits are W_O g_i plus a bias.",
    ),
)

# %% [markdown]
# The logits are $W_O g_i$ plus a bias, and their softmax $p_i$ is the prediction. The labels are one-hot, $e_{y_i}$; the error that reaches the *context* $g_i$ is $u_i = W_O^\top (p_i - e_{y_i})$. The
# *compatibility* $b_{ij} = u_i \cdot v_j$ says how much value $j$ would raise the loss of query $i$; $\mathbb{E}_{\alpha_i}[b] = \sum_j \alpha_{ij} b_{ij}$ is its mean. The gradients of the loss $L$ are
#
# $$ \frac{\partial L}{\partial s_{ij}} = \alpha_{ij}\bigl(b_{ij} - \mathbb{E}_{\alpha_i}[b]\bigr), \qquad \frac{\partial L}{\partial v_j} = \sum_i \alpha_{ij} u_i, $$
#
# and everything else follows by the chain rule. The *advantage* of a key is the bracket with its sign turned, $A_{ij} = \mathbb{E}_{\alpha_i}[b] - b_{ij}$: where it is positive, the key helps the query
# more than the average key, and its score grows. The paper's equations 13 to 32 agree with automatic differentiation to rounding, on {glue:text}`eq/sizes` heads of random sizes, half of them causal.
#
# The mean needs no sum over keys: $\mathbb{E}_{\alpha_i}[b] = u_i \cdot g_i$. So one pass over blocks of queries gives all gradients of a causal head.

# %% tags=["hide-input"]
record.all(closed_forms_checked.closed_forms())
record.verdicts("eq13-32")

# %% [markdown]
# ### The head in code
# The whole model, on a sequence of the paper's *sticky Markov chain*: eight symbols, of which the next is often the same or a near one. An input $x_j$ is its symbol's fixed vector (its *mean*) plus
# Gaussian noise; the label is the next symbol. A larger rate for the values is one number in the loop.

# %% mystnb={"image": {"alt": "Cross-entropy of one head on a short Markov chain along 300 steps: the run whose values learn ten times as fast falls first."}}
from torch.nn.functional import cross_entropy, one_hot


def head(x, W_Q, W_K, W_V, W_O):  # inputs (T, d)
    q, k, v = x @ W_Q.T, x @ W_K.T, x @ W_V.T
    s = q @ k.T / len(W_Q) ** 0.5  # scores s_ij
    later = torch.ones_like(s).triu(1).bool()
    alpha = s.masked_fill(later, -torch.inf).softmax(-1)  # attention
    return alpha @ v @ W_O.T  # contexts g_i, then logits


chain = chain_runs.data(StickyChain("code", T=300), seed=0).train
start = [
    0.1 * torch.randn(shape, generator=torch.Generator().manual_seed(i))
    for i, shape in enumerate([(10, 20), (10, 20), (15, 20), (8, 15)])
]
closed = closed_forms.causal_step(
    chain.x, one_hot(chain.y, 8).float(), *start
)  # equations 13, 16, 23 and 28 to 32

faster = 10  # change me: how many times as fast values learn, such as 3
fig, ax = style.figure(1, height=2.6)
for name, times in {"one rate": 1, f"values {faster} times as fast": faster}.items():
    weights, losses = [W.clone().requires_grad_() for W in start], []
    for step in range(300):
        loss = cross_entropy(head(chain.x, *weights), chain.y)
        gradients_now = torch.autograd.grad(loss, weights)
        if step == 0:
            assert all(
                torch.allclose(a, b, atol=1e-7)
                for a, b in zip(gradients_now, closed[1:], strict=True)
            )
        with torch.no_grad():
            for W, g, factor in zip(
                weights, gradients_now, (1, 1, times, 1), strict=True
            ):
                W -= 0.1 * factor * g
        losses.append(loss.item())
    ax.plot(
        losses, label=name, color=figures_6_to_8.COLOUR["sgd" if times == 1 else "em"]
    )
ax.set(xlabel="step", ylabel="cross-entropy (nats)")
ax.legend()
style.show()

# %% [markdown]
# *Values that learn ten times as fast lower the loss first. Both runs start from the same weights, at rate 0.1, on 300 symbols.* But the faster run takes larger steps. Is that [fair](#a-fair-trial)?

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### What a step does
# With learning rate $\eta$, equations 33 to 36 write $\Delta v = -\eta\, \partial L / \partial v$ and the same for $s$, $q$ and $k$. Each is right if that quantity is a free parameter. They do not
# hold together: if $q$ and $k$ move, $s$ moves by something other than equation 34. And training moves none of these but the matrices: a step on $W_V$ changes the values by
# $-\eta\, (X X^\top)\, \partial L / \partial v$, mixed by the inner products of the inputs, the rows of $X$.
#
# Equations 39 to 43 follow one value's step to the contexts and losses of its *users*, the queries that attend to it. Equation 43 neglects all users but one. Where this one's weight is ten times
# any other, {glue:text}`dominant/ten` of the pairs are off by at most a fifth; where it is a hundred times as large, {glue:text}`dominant/hundred`. What bounds the relative error is $\rho = \sum_{r \ne i} \alpha_{rj} |u_r| \,/\, \alpha_{ij} |u_i|$.

# %% mystnb={"image": {"alt": "Two scatter plots of the relative error of equation 43. Against the ratio of weights the errors reach far above one even at a ratio of ten; against rho all points lie below the diagonal."}} tags=["hide-input"]
pairs = closed_forms_checked.dominant_query()
record.all(
    closed_forms_checked.first_order()
    | closed_forms_checked.readings_of_updates()
    | closed_forms_checked.dominant_values(pairs)
)
closed_forms_checked.plot_dominant_query(pairs)
style.show()

# %% [markdown]
# *A small $\rho$ bounds the error of equation 43; a large weight does not. A dot is a pair (query, key) of 400 random heads of up to 40 positions; 4,000 drawn; ring: the largest error of a weight ten times any other.*

# %% tags=["remove-input"]
record.verdicts("eq33-43", "q-eq33-36", "dominant-query")

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Sentences about directions
# The paper says in words which way things move. We test each sentence on random and on half-trained heads of the [toy](#the-toy). Those that restate a formula hold in all cases here, the others mostly or sometimes.

# %% mystnb={"image": {"alt": "Bars with the share of cases in which each of the paper's sentences holds, from always to never."}} tags=["hide-input"]
said = sentences.signs(200 if paper else 60)
record.all(said)
sentences.plot_sentences(said)
style.show()

# %% [markdown]
# *Sentences of the paper that restate a formula hold in all cases here (dark), the others (blue) mostly, sometimes or hardly ever. Share of the cases, random and half-trained heads, in which each
# sentence holds, with its section.*

# %% tags=["remove-input"]
record.verdicts("signs", "toward-users")

# %% [markdown]
# At another draw dark ones can meet rare exceptions, at the limits of the test: a loss that has exploded, heavy keys too near the average to count. The rest depends on how a sentence is read:
#
# - **The correct logit.** $-u_i$ lowers the loss; but it may do so by lowering the other logits more than the correct one.
# - **Attention mass.** All positions below average *together* lose attention ({glue:text}`signs/mass_total` of queries); a *single* one loses it in {glue:text}`signs/mass` of the cases: the step on the
#   scores is itself weighted by $\alpha$, so a key with little weight may gain when a heavy one loses.
# - **All users.** A value's step lowers the *summed* first-order loss by $\eta |\bar u_j|^2$; single users may be harmed, as section 4.3 says ("must compromise").
# - **The loop.** As section 4.4 puts it, *if* $v_j$ moves away from $u_i$, and alone, a positive advantage grows. If $v_j$ moves alone in whatever direction, it grows in {glue:text}`signs/own` of the cases. If all values
#   move and errors change with them, it grows in {glue:text}`signs/feedback3`, as the average that the advantage is measured against improves too. And a larger score pushes the value harder in {glue:text}`signs/feedback2` of
#   the cases, since the error changes with it.
# - **Towards users.** Values move along $-\bar u_j$: away from their users' errors, and towards their contexts in {glue:text}`prose/toward_contexts` of the cases. "Towards what users need" would
#   be true, but it only repeats equation 38.

# %% [markdown]
# ## The toy
# Five positions, two-dimensional values, random labels, one head, one hundred steps. The paper states neither the size of the first weights' "small Gaussian entries" nor the learning rate.
# Nor does it say whether the bias of the logits is trained: equation 7 has one, section 3 gives it no gradient. Both readings are run.
#
# Here is a grid of initial scales and rates, bias frozen, {glue:text}`toy/seeds` seeds a cell. The *effective number* of positions that a query attends to is $\exp(\text{entropy})$ of its
# weights. Attention *sharpens* if this number ends at most at half of five and the loss has fallen. A loss is *smooth* if no step raises it by more than a hundredth of its start.

# %% mystnb={"image": {"alt": "Three heat maps over initial scale and learning rate. Attention sharpens more at larger scales and rates; the loss is smooth at small rates; both together are more frequent at larger scales."}} tags=["hide-input"]
swept = results("toy", profile, device)
grids = {
    reading: figures_1_to_5.grid(swept.group(reading))
    for reading in figures_1_to_5.READINGS
}
figures_1_to_5.plot_settings(grids["frozen"])
style.show(of=[swept])
chosen = figures_1_to_5.grid_values(grids)
record.all(chosen)
record("toy/seeds", seeds := len(swept["frozen/start"]))

# %% [markdown]
# *Attention sharpens more at larger scales and rates, the loss is smooth at small rates, and few settings have both. Bias frozen.* With small entries
# attention long stays near uniform, because the gradients of $W_Q$ and $W_K$ are of third order in the weights; a rate that sharpens it often makes the loss jump.
#
# The paper shows one run in four figures, so we judge all four at *one* setting for each reading. Among settings whose first attention covers at least nine tenths of the five positions,
# a rule chooses the one with the largest share of runs that sharpen along a smooth loss (framed).
#
# It chooses the scales {glue:text}`toy/scale` and the rates {glue:text}`toy/rate` (bias frozen, then trained). At rate 0.01, the paper's on its chain, at most {glue:text}`toy/stated_rate` of the runs
# sharpen from a scale below 1.
#
# The shares in the next table are of new seeds, which did not choose the setting. The figures draw one *smooth run*: of the runs that sharpen along a smooth loss, the one whose final loss and
# number of positions rank nearest to their medians. *Specialisation* is the middle eight tenths of the fall in the number of positions attended to.
#
# | Share of runs | bias frozen | bias trained |
# |---|---|---|
# | attention covers fewer positions than before | {glue:text}`fig2-3/frozen_falls` | {glue:text}`fig2-3/trained_falls` |
# | and the loss is smooth | {glue:text}`fig2-3/frozen_both` | {glue:text}`fig2-3/trained_both` |
# | attention ends on at most half of the positions | {glue:text}`fig2-3/frozen` | {glue:text}`fig2-3/trained` |
# | the loss is smooth | {glue:text}`fig4/frozen` | {glue:text}`fig4/trained` |
# | **Median run:** attention on a query's two heaviest keys | {glue:text}`fig2-3/frozen_mass` | {glue:text}`fig2-3/trained_mass` |
# | share of the loss's fall during specialisation | {glue:text}`fig4/frozen_gain` | {glue:text}`fig4/trained_gain` |

# %% mystnb={"image": {"alt": "Two attention maps of five queries and keys: nearly uniform before training, a few large entries per row after."}} tags=["hide-input"]
runs = {  # on other seeds than those that chose
    reading: toy_runs.train(
        range(1000, 1000 + seeds), scale, rate, bias=reading == "trained"
    )
    for reading, scale, rate in zip(
        figures_1_to_5.READINGS, chosen["toy/scale"], chosen["toy/rate"], strict=True
    )
}
run, r = runs["frozen"], figures_1_to_5.typical(runs["frozen"])
figures_1_to_5.plot_attention(run, r)
style.show(of=[swept])
record.all(figures_1_to_5.figure_values(runs))

# %% [markdown]
# *Training turns nearly uniform attention into a few large entries a row (paper: Figures 2 and 3). The smooth run.*

# %% tags=["remove-input"]
record.verdicts("fig2-3")

# %% mystnb={"image": {"alt": "Left: loss against step, flat, then falling smoothly in one run, with a wide band over seeds. Right: effective number of attended positions, falling from five."}} tags=["hide-input"]
figures_1_to_5.plot_loss(run, r)
style.show(of=[swept])

# %% [markdown]
# *In {glue:text}`fig2-3/frozen_both` of the runs the loss falls smoothly while queries come to attend to fewer positions (paper: Figure 4). The smooth run, the median of all runs, and a band with 80 % of
# the seeds.*

# %% tags=["remove-input"]
record.verdicts("fig4")

# %% mystnb={"image": {"alt": "Left: paths of five value vectors, from open to filled circles. Right: histogram over seeds of the share of the first component, piled up near one with a long tail."}} tags=["hide-input"]
figures_1_to_5.plot_values(run, r)
style.show(of=[swept])

# %% [markdown]
# *In most runs the values move mainly along one direction; in the smooth run their paths turn (paper: Figure 5). Paths of the smooth run, from open to filled circles, and the share of the displacements
# that the first component holds, over all seeds.*

# %% tags=["remove-input"]
record.verdicts("fig5")

# %% [markdown]
# Specialisation takes {glue:text}`fig4/window` of the steps (bias frozen, trained). Values have two dimensions here, so two components hold all of their motion. The first holds
# {glue:text}`fig5/pc1` of the squared displacements in the median run. Is that more than chance? Each run is ranked among 2,000 runs made up of its own displacements turned in random directions:
#
# | Mean rank (chance: 0.5) | bias frozen | bias trained |
# |---|---|---|
# | five displacements of one run | {glue:text}`fig5/frozen` | {glue:text}`fig5/trained` |
# | control: five displacements from five runs | {glue:text}`fig5/frozen_shuffled` | {glue:text}`fig5/trained_shuffled` |
#
# The paper's Figure 1 is a schematic. Here it is a real step: the one at which the smooth run's loss falls most, for the pair of query and key with positive advantage and the largest $\alpha_{ij} |u_i|$.

# %% mystnb={"image": {"alt": "Left: arrows of a value, its user's context and error. Right: the signal, the value's step opposite to it, and the shorter change of the context."}} tags=["hide-input"]
steepest = {
    reading: figures_1_to_5.steepest_steps(runs[reading], rate, reading == "trained")
    for reading, rate in zip(figures_1_to_5.READINGS, chosen["toy/rate"], strict=True)
}
figures_1_to_5.plot_one_step(steepest["frozen"], r)
style.show(of=[swept])
record.all(figures_1_to_5.one_step_values(steepest))

# %% [markdown]
# *A value moves against its signal, the errors of the queries that use it summed with their weights, and pulls a query's context along (paper: Figure 1). The first panel has the error of one such
# query; the second has the signal and, enlarged, both steps, drawn beside each other.*

# %% tags=["remove-input"]
record.verdicts("fig1")

# %% [markdown]
# The value moves as drawn in
# {glue:text}`fig1/against` of the runs. If it alone moves, the query's loss falls and the pair's advantage grows in most runs. In the real step the advantage seldom grows: other queries use the value too, and errors shrink.
#
# | Share of runs, each at its own steepest step, if | the query's loss falls | the pair's advantage grows |
# |---|---|---|
# | the value alone moves | {glue:text}`fig1/loss_own` | {glue:text}`fig1/reinforced_own` |
# | the four matrices take the step | {glue:text}`fig1/loss_all` | {glue:text}`fig1/reinforced_all` |
# | these and the bias do | {glue:text}`fig1/loss_bias` | {glue:text}`fig1/reinforced_bias` |

# %% tags=["hide-input"]
sliders.show_attention(few=not paper)

# %% [markdown]
# ## The sticky chain
# Eight symbols on a circle; the next symbol is the same with probability 0.3, otherwise another. The text gives the others a probability "proportional to the distance" and says next that near
# symbols are likelier. We try four chains. Which has the printed entropy of 1.829?

# %% tags=["hide-input"]
code = StickyChain("code", T=2000 if paper else 600)
record.all(fair_trial.chain_values(code, 40 if paper else 10))
record("rate/code_stay", float(StickyChain("code").transition[0, 0]))
record.verdicts("q-entropy-rate", "bayes-floor")

# %% [markdown]
# The chain of the published program has it. The program weighs other symbols by one over the circular distance and the symbol itself by 0.3, normalises, and then adds the chance to stay once more.
# So the chain stays with probability {glue:text}`rate/code_stay`, and its entropy is {glue:text}`rate/code_nats` **nats** ({glue:text}`rate/code_bits` bits). So the paper's Table 1 is in nats, though
# the text says bits ([Errata](#errata)), and its chain is not the one described. Inputs are noisy, so even a perfect predictor does not see the state. The exact posterior gives the *floor*, the
# best loss that any predictor can have. The noise adds only {glue:text}`floor/excess` nats: the means of the eight symbols are far apart.
#
# ### The paper's Table 1 and Figures 6 to 8
# What the paper leaves open we take from the published program: weights $0.1\, \mathcal{N}(0, 1)$, no output bias, the **mean** of
# the cross-entropy where equation 9 has the sum ([Errata](#errata)), full-batch steps, metrics on the training sequence. {glue:text}`chain/T` symbols, {glue:text}`chain/steps` steps;
# {glue:text}`chain/seeds_code` seeds on the published chain and {glue:text}`chain/seeds_text` on the text's, each trained by SGD and by the paper's EM-like *schedule*, SGD with ten times the rate
# for values, from the same weights on the same sequence. A third set halves the initial weights ({glue:text}`chain/seeds_small` seeds). The stored runs took {glue:text}`chain/minutes` minutes on a
# busy processor.

# %% mystnb={"image": {"alt": "Loss, accuracy and predictive entropy against step: the EM-like schedule runs ahead of SGD in all three; the printed ends lie on our curves."}} tags=["hide-input"]
study = studies(profile)
stored = {
    name: results(name, profile, device)
    for name in study
    if not name.startswith(("tunnel", "toy", "unfurling"))
}
short_chains = stored.pop("regularisation")
chains = [
    found
    for name, found in stored.items()
    if name not in ("small_start", "fresh", "onward")
]
on_code, on_text = (
    figures_6_to_8.gather(study, stored, kind) for kind in ("code", "nearer")
)
(em, sgd), (em_text, sgd_text) = (
    (found["em"], found["sgd"]) for found in (on_code, on_text)
)
record.all(
    {
        "chain/T": code.T,
        "chain/steps": int(em.steps[-1]),
        "chain/seeds_code": len(em.seeds),
    }
)
record("chain/seeds_text", len(em_text.seeds))
small = figures_6_to_8.gather(study, stored, "code", SMALL_START)
record("chain/seeds_small", len(small["em"].seeds))
record("chain/minutes", sum(s.provenance["seconds"] for s in stored.values()) / 60)
figures_6_to_8.plot_curves(em, sgd, figures_6_to_8.bayes_losses(code, em.seeds).mean())
style.show(of=chains)
both = {"code": (em, sgd), "text": (em_text, sgd_text)}
tables = {
    kind: figures_6_to_8.table(*arms)
    for kind, arms in (both | {"small": (small["em"], small["sgd"])}).items()
}
record.all(figures_6_to_8.table_values(tables))
record.all(
    figures_6_to_8.curve_values(both) | figures_6_to_8.learned_values(em, sgd, code)
)
record("chain/spread_small", tables["small"]["loss_sgd_sd"])
record.verdicts("table1", "fig6-8", "approach")
figures_6_to_8.table_beside_ours(tables["code"], "the published chain")

# %% [markdown]
# *The schedule (green) reaches SGD's loss sooner (paper: Figures 6 to 8). Published chain; diamonds: the printed ends, and the printed steps to SGD's loss (thin line), with their standard
# deviations.* The table above says where a mean of five seeds like the paper's is expected, and whether the printed mean is inside; the other arm's should not be. Each printed standard deviation, divided
# by ours on the published chain, should lie between {glue:text}`table1/code/spread_low` and {glue:text}`table1/code/spread_high`. The paper's $p$ value, of schedule against SGD, is not unusual: of
# draws of five of our seeds, the share {glue:text}`table1/code/p_share` has one as small.
#
# On the published chain the schedule reaches SGD's final loss after {glue:text}`table1/code/steps` steps (printed: 430), {glue:text}`table1/code/speedup` times as fast. Knowing nothing costs
# $\ln 8 = 2.079$ nats, the floor is {glue:text}`chain/floor`. Of the way between, SGD has gone {glue:text}`chain/learned_sgd` in a thousand steps and the schedule
# {glue:text}`chain/learned_em`. By the entropies of predictions in the paper's Table 1, schedule and SGD have gone
# {glue:text}`chain/learned_printed` of the way. The printed runs of SGD differ less from seed to seed than ours. Smaller initial weights would explain that, but then the schedule's loss would be
# higher than printed:
#
# | Initial weights | SGD: spread of the final loss | SGD: final loss | schedule: final loss |
# |---|---|---|---|
# | as published | {glue:text}`chain/spread_sgd` | {glue:text}`table1/code/loss_sgd` | {glue:text}`table1/code/loss_em` |
# | half as large | {glue:text}`chain/spread_small` | {glue:text}`table1/small/loss_sgd` | {glue:text}`table1/small/loss_em` |
# | printed | 0.007 | 2.058 | 1.970 |

# %% tags=["remove-input"]
figures_6_to_8.table_beside_ours(tables["text"], "the text's chain", folded=True)

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Trajectories of values (the paper's Figure 9)
# Under the schedule values travel farther than under SGD, at ten times the rate.

# %% mystnb={"image": {"alt": "Two panels of arrows on the same axes: long arrows in several directions for the schedule, short ones for SGD."}} tags=["hide-input"]
weights = study["shown"], stored["shown"]
kept = {arm: figure_9.followed(*weights, arm) for arm in ("sgd", "em")}
figure_9.plot_value_arrows(kept["em"][0], kept["sgd"][0])
style.show(of=[stored["shown"]])
record.all(figure_9.trajectory_values(*weights))

# %% [markdown]
# *Under the schedule values travel farther than under SGD (paper: Figure 9). 200 of the 2000 values of one seed, on the principal axes of both runs together.*

# %% tags=["remove-input"]
record.verdicts("fig9")

# %% [markdown]
# The schedule's arrows are {glue:text}`fig9/ratio` times as long. Are they more coherent? The share of variance in their first component, less SGD's,
# is {glue:text}`fig9/aligned_apart` (standard error {glue:text}`fig9/aligned_apart_se`), and the straightness of the paths, less SGD's, {glue:text}`fig9/straight_apart`. SGD at 0.01 has hardly left its first, straight step. "Focused attention"
# has not come yet either: at the end attention's entropy is {glue:text}`fig9/focus_em` of the largest possible under the schedule, and {glue:text}`fig9/focus_sgd` under SGD.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Do both find the same?
# The paper says that both ways to train come to "similar solutions", by the KL divergence of their predictions, and prints no number. After equally many steps SGD is behind. So we train it longer,
# at rate 0.2, to the schedule's loss: from the same initial weights, and from another seed's.

# %% tags=["hide-input"]
onward = [
    figure_9.followed(study["onward"], stored["onward"], group_name=start)
    for start in ("own", "other")
]
record.all(
    figure_9.kl_values(em, sgd, kept["em"], onward) | figure_9.cluster_values(kept)
)
record.verdicts("kl", "clusters")

# %% [markdown]
# SGD converges to nearly the same predictor, with *sharper* routing. What the schedule's predictions know is $\mathrm{KL}(\text{EM} \,\|\, \text{uniform})$. At equal loss SGD
# diverges from them by {glue:text}`kl/share` of that (from the same initial weights; from another seed's). So the two ways to train differ far less than two starts do. Attention's entropy, over the largest possible, is higher
# under the schedule by {glue:text}`kl/diffuse_at_equal_loss`. Only after equally many steps is SGD's attention the more diffuse one ({glue:text}`kl/diffuse`), and then the predictions are not similar:
# the divergence is {glue:text}`kl/mean` nats, {glue:text}`kl/end` of what the schedule knows. Section 9.4 expects values to gather in clusters, and they
# hardly do. The *silhouette* is 1 for tight groups far apart, 0 for none.
#
# | Silhouette of values by their input's symbol | SGD, then schedule |
# |---|---|
# | before training | {glue:text}`clusters/start` |
# | after | {glue:text}`clusters/end` |
# | with shuffled symbols | {glue:text}`clusters/shuffled` |
#
# A linear classifier that sees the present symbol alone, without attention, has a lower held-out loss than the schedule's head, by {glue:text}`map/behind` nats
# (standard error {glue:text}`map/behind_se`).

# %% mystnb={"image": {"alt": "Heat maps of attention by the symbol asked and the symbol read, for two seeds: before training, after the schedule and after SGD. The patterns of one seed are alike and grow stronger; there is no diagonal."}} tags=["hide-input"]
figure_9.plot_attention_maps(kept["em"], onward[0], seeds=(0, len(kept["em"]) // 2))
style.show(of=[stored["shown"], stored["onward"]])
record.all(figure_9.learned_map_values(em, kept["em"]))

# %% [markdown]
# *Training amplifies the random map that a head starts with, and SGD amplifies the same one; no diagonal emerges. Attention on each symbol (column) by queries that show each symbol (row), over
# uniform attention, on a logarithmic scale: before training, under the schedule, and under SGD at the same loss.*
#
# | Attention | seed by seed |
# |---|---|
# | on the query's own symbol, over chance, before training | {glue:text}`map/own_before` |
# | the same after the schedule | {glue:text}`map/own_after` |
# | correlation of the two maps | {glue:text}`map/alike` |
# | spread of the map, after over before | {glue:text}`map/grown` |
#
# An E-step would not depend on the start. Here the initial weights choose the map.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Are value gradients small?
# The schedule is motivated by value gradients that are "typically smaller in magnitude than routing gradients early in training". As matrices they are larger than those of $W_Q$ and $W_K$ at first.

# %% mystnb={"image": {"alt": "Norm of the gradient of W_V over those of W_Q, W_K and W_O along SGD: above one against W_Q and W_K at the start, one against W_O."}} tags=["hide-input"]
fair_trial.plot_gradient_sizes(sgd)
style.show(of=chains)
record.all(fair_trial.early_ratios(sgd) | figure_9.activation_ratios(kept["sgd"]))

# %% [markdown]
# *The gradient of $W_V$ is larger than those of $W_Q$ and $W_K$ at first and no longer at the end, and about as large as that of $W_O$.*

# %% tags=["remove-input"]
record.verdicts("gradient-sizes")

# %% [markdown]
# The sentence names
# matrices, and for matrices it does not hold against $W_Q$ and $W_K$. Per position, the gradient of $v$ is smaller than that of $q$ and larger than that of $k$. The gradient of $W_V$ is of first order in the weights,
# those of $W_Q$ and $W_K$ of third: the smaller the initial weights, the more the value gradient dominates ([exercise 2](#exercises)).
#
# | Value gradient over | norms | entry by entry |
# |---|---|---|
# | the larger of $W_Q$'s and $W_K$'s | {glue:text}`sizes/v_over_qk` | {glue:text}`sizes/entry_v_over_qk` |
# | that of $W_O$ | {glue:text}`sizes/v_over_o` | {glue:text}`sizes/entry_v_over_o` |
# | that of $q$, for $v$ | | {glue:text}`sizes/activation_v_over_q` |
# | that of $k$, for $v$ | | {glue:text}`sizes/activation_v_over_k` |

# %% [markdown]
# ## A fair trial
# What if we multiply other rates than that of values by ten, from 0.01 to 0.1, or all? All runs start from the same weights and sequences and make equally many steps.

# %% mystnb={"image": {"alt": "Left: training loss against step of five ways to train; rate 1 for everything ends lowest. Right: lowest held-out loss of each against the floor."}} tags=["hero", "hide-input"]
tried = on_code["uniform0.02"].seeds
every = {name: curve.only(tried) for name, curve in on_code.items()}
record.all(
    fair_trial.fair_values(em, sgd, on_code)
    | fair_trial.gap_values(code, every, stored["fresh"])
)
floors = [
    figures_6_to_8.bayes_losses(code, tried, held_out).mean()
    for held_out in (False, True)
]
fair_trial.plot_fair_trial(every, *floors)
style.show(of=chains)

# %% [markdown]
# *A larger rate for everything does better than one for the values. Training loss of five ways, mean over seeds (ten times on $W_O$, dotted, lies on the schedule); and the lowest held-out loss of all nine,
# each at its best step.*

# %% tags=["remove-input"]
record.verdicts("q-schedule", "q-uniform-rate", "manual-em", "gap")

# %% [markdown]
# If values need the larger rate, as the paper says, a larger rate elsewhere should bring less:
#
# | Final held-out loss of the schedule minus that of ... (positive: the schedule is worse) | nats | standard error |
# |---|---|---|
# | rate 0.1 for everything | {glue:text}`fair/vs_uniform0.1` | {glue:text}`fair/vs_uniform0.1_se` |
# | ten times on $W_O$ alone | {glue:text}`fair/vs_o10` | {glue:text}`fair/vs_o10_se` |
# | ten times on $W_Q$ and $W_K$ alone | {glue:text}`fair/vs_qk10` | {glue:text}`fair/vs_qk10_se` |
# | Adam at 0.001 | {glue:text}`fair/vs_adam0.001` | {glue:text}`fair/vs_adam0.001_se` |
#
# Seeds, row by row: {glue:text}`fair/seeds`. At its best step Adam beats the schedule (Figure 1). But Adam and rate 1 for everything learn their sequence by heart: their
# final losses, trained and held out, are {glue:text}`fair/by_heart` (rate 1 first).
#
# By interpolation a uniform rate of {glue:text}`fair/equal_rate` has the schedule's speed on these seeds. At these rates only steps times rate counts. To reach SGD's final loss this product must be
# {glue:text}`fair/flow_law` times SGD's, at uniform rates of 0.02 and of 0.1.
# Alternating steps on $W_V$ and on the rest (section 5.3) end where simultaneous steps do (difference {glue:text}`manual/difference` nats), but cost two gradients a step. Per gradient they reach
# SGD's loss {glue:text}`manual/speedup` times as fast as SGD.
#
# The paper's head ends 0.17 nats above the floor, and the paper suspects the capacity of a single head. Matrices of the same shapes, written down by hand (queries and keys compare symbols, values
# name them, $W_O$ holds the log transition matrix), come much nearer. So it is not capacity that lacks, but steps, data or optimiser:
#
# | On the same 1,999 predictions, above the floor | nats |
# |---|---|
# | weights written down by hand | {glue:text}`gap/constructed` |
# | lowest *held-out* loss of all ways to train above | {glue:text}`gap/trained` |
# | the same head on a fresh sequence at every step, with Adam | {glue:text}`gap/fresh` |

# %% tags=["hide-input"]
sliders.show_race(few=not paper)

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Does attention settle first?
# Here is the same head on fresh sequences, which nothing can learn by heart. *Distance left* says how far attention, values and calibration still are from their end, as a share of the distance at
# the start. (Calibration: the root of the held-out loss above its floor.)

# %% mystnb={"image": {"alt": "Distance left of attention, values and error against the step, for one head on fresh sequences and for the last layer of a transformer on bijections; thin lines are seeds."}} tags=["hide-input"]
on_fresh = figure_9.followed(study["fresh"], stored["fresh"])
left = figure_9.head_left(on_fresh, stored["fresh"]["runs/gap"])
unfurling = results("unfurling", profile, device)
figure_9.plot_way_left(
    {
        "one head, fresh sequences": (on_fresh[0].steps, left),
        "last layer, bijections": (
            unfurling["transformer/steps"],
            wind_tunnel.unfurling_left(unfurling),
        ),
    }
)
style.show(of=[stored["fresh"], unfurling])
record.all(
    figure_9.frame_values(left, on_fresh[0].steps, "frame")
    | wind_tunnel.unfurling_values(unfurling)
    | figure_9.freezing_values({"schedule": kept["em"], "fresh": on_fresh})
)

# %% [markdown]
# *Calibration goes most of its way first; attention and values follow, nearly alike. Distance to the final value over that at the start; calibration by the loss for the one head, by the error of
# the entropy for the layer; thick: mean over seeds.*

# %% tags=["remove-input"]
record.verdicts("frame-precision", "freezing", "unfurling")

# %% [markdown]
# On average over the training, calibration has less of its way left than attention, in the one head and in the last layer of a small transformer that learns [bijections](#a-small-wind-tunnel), where
# the paper saw values unfurl once attention rests. So attention does not stand still while calibration improves.
#
# Nor does the paper's mechanism act here: $b_{ij}$ does not come near its mean, and the gradient of the scores ends near its largest.
#
# | At the end of training | spread of $b_{ij}$ about its mean, over the size of $b_{ij}$ | norm of $\partial L / \partial s$, over its largest |
# |---|---|---|
# | the schedule, published chain | {glue:text}`freezing/schedule/apart` | {glue:text}`freezing/schedule/slope` |
# | fresh sequences | {glue:text}`freezing/fresh/apart` | {glue:text}`freezing/fresh/slope` |
#
# In the transformer attention's entropy does fall ({glue:text}`unfurling/entropy`, of the largest
# possible), and the first component of its weighted values follows the posterior's entropy early; in the second half of training that correlation changes by {glue:text}`unfurling/late_r`.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Diagnostics and regularisation
# Section 8.1 proposes to watch the advantage and the column usage of attention, the total weight that a key receives. We try both on the schedule's runs, halfway through training.

# %% tags=["hide-input"]
record.all(section_8.diagnostic_values(kept["em"]))
record.all(section_8.regularisation_values(study["regularisation"], short_chains))

# %% tags=["remove-input"]
record.verdicts("diagnostics", "regularisation")

# %% [markdown]
# Under a causal mask early keys
# are seen by more queries, so column usage mostly tells position: uniform attention alone explains {glue:text}`diag/position` of its variance. Its
# advantage $A^{adv}_{ij} = b_{ij} - \mathbb{E}_{\alpha_i}[b]$, which is $-A_{ij}$, has a rank correlation of {glue:text}`diag/predicts` with the next change of the scores over {glue:text}`diag/seeds` seeds
# ({glue:text}`diag/weighted` if it is weighted by $\alpha$). So advantages do predict, with the sign of $A_{ij}$ ([Errata](#errata)).
#
# Column sums do tell which values matter: with the loss's change when a value is left out they have a rank correlation of {glue:text}`diag/usage`.
#
# Section 8.2's LayerNorm and dropout were tried on chains of 200 symbols, with {glue:text}`reg/seeds` seeds. With LayerNorm on values their directions move almost as without it (median cosine
# {glue:text}`reg/direction`). Dropout (rates 0.2, 0.5) evens column usage in shares {glue:text}`reg/dropout_even` of the seeds, and spreads attention out in {glue:text}`reg/dropout_spread`.

# %% [markdown]
# ## Content-based routing beyond attention
# Do other architectures behave in the same way? By definition 9.1 a mechanism *routes* if its outputs are $o_i = \sum_j w_{ij} v_j$ with weights in $[0, 1]$ that sum to 1 and
# depend on what stands at $i$ and $j$. The paper names the selective state-space model as an instance and the LSTM as a counterexample.
#
# A recurrence that is linear in its state can be unrolled. For the selective state-space model (SSM), with state matrix $A$, whose write matrix $B_j$, read matrix $C_i$ and step length $\Delta_j$
# depend on the token, the printed weights $w_{ij} = C_i \bigl(\prod_{k=j+1}^{i} e^{A \Delta_k}\bigr) \Delta_j B_j$ are exact: over
# {glue:text}`routing/draws` random networks, $o_i$ and $\sum_j w_{ij} x_j$ differ by rounding only. But the LSTM's cell unrolls too: with forget gates $F$, input gates $I$ and candidates (marked by a tilde),
# $c_i = \sum_j \bigl(\prod_{k=j+1}^{i} F_k\bigr) I_j\, \tilde c_j$ (largest difference {glue:text}`routing/lstm_identity`).

# %% mystnb={"image": {"alt": "Lower triangular heat maps of weights for seven positions: attention's are positive with row sums one, those of the selective SSM take both signs, those of the LSTM are positive with other row sums."}} tags=["hide-input"]
section_9.plot_weights(section_9.sample_network(1))
style.show()
draws = section_9.DRAWS if paper else 60
record.all(
    section_9.identity_records(draws)
    | section_9.definition_records(60 if paper else 20)
)

# %% [markdown]
# *Only attention's weights form an average: its rows sum to one. Three mechanisms on the same random sequence, one channel each.*

# %% tags=["remove-input"]
record.verdicts("routing-def")

# %% [markdown]
# Attention satisfies the definition. The
# selective SSM does not: {glue:text}`routing/ssm/outside` of its weights lie outside $[0, 1]$, and row sums are typically {glue:text}`routing/ssm/row_error` away from 1. The LSTM's weights do lie
# in $[0, 1]$; only its rows do not sum to 1.
#
# The text excludes the LSTM because its gates "do not depend on the *relationship*" between positions. But they read the state before, so its $w_{ij}$ moves with what stands *before* $j$
# (derivatives up to
# {glue:text}`routing/lstm/others`), and the contents of $i$ and $j$ interact in it. The SSM's gates read the current token only: what stands before $j$ never matters (derivative
# {glue:text}`routing/ssm/others`), and with one state per channel $\log w_{ij}$ is a sum of functions of single tokens, without any interaction of $i$ and $j$.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### The conjectures
# For parameters $\theta$ that only the weights depend on, the chain rule gives the gradient of any mechanism: $\partial L / \partial\theta = \sum_{ij} b_{ij}\, \partial w_{ij} / \partial\theta$.
# Conjecture 9.2 prints a factor $w_{ij}$ more, which belongs to derivatives of the *scores*.
#
# It also subtracts the mean of $b_{ij}$. Where rows sum to 1, $\sum_j \partial w_{ij} = 0$, so *any* number may be subtracted. Elsewhere that costs exactly $\sum_i \mathbb{E}_{w_i}[b]\, \partial W_i /
# \partial\theta$ with $W_i = \sum_j w_{ij}$.

# %% mystnb={"image": {"alt": "Cosines of three formulas with the exact gradient for softmax attention, selective SSM and a normalised SSM. The chain rule is at one everywhere; without the factor the conjecture is at one where rows sum to one and scattered for the SSM; as printed it is below one everywhere and mostly negative for the SSM."}} tags=["hide-input"]
section_9.plot_conjecture(draws)
style.show()
record.all(section_9.conjecture_records(draws))

# %% [markdown]
# *As printed the formula points the wrong way for most selective SSMs; only the chain rule is exact for all.*

# %% tags=["remove-input"]
record.verdicts("conj9.2", "conj9.3")

# %% [markdown]
# As printed, the formula is not proportional to the gradient even for softmax; for the selective SSM
# its median cosine (softmax, SSM) {glue:text}`q92/printed_cosine` means that a step along it would usually *raise* the loss. Without the factor it is exact for softmax, and for an SSM whose rows we
# normalise, but not for the selective SSM (median cosine {glue:text}`q92/advantage_cosine`): "advantage" needs weights that compete for a fixed sum. Conjecture 9.3 is exact for attention's $W_V$ and for
# an SSM whose values have a projection of their own. In equation 48 one projected input feeds the values *and* $\Delta$, $B$, $C$; then the formula misses the path through the weights (median cosine
# {glue:text}`conj93/ssm/shared_cosine`).

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### A small wind tunnel
# The paper's evidence comes from its companion, Paper I, and its *wind tunnels*: small tasks whose exact posterior is known. There an LSTM does not track the posterior of a hidden Markov model: the
# error in the entropy of its answer, 0.416 bits, is almost that of knowing nothing. That LSTM is nine layers deep without residual connections, which the other models have. In our own, much smaller
# wind tunnel none of four models fails.
#
# | Printed error of the entropy | transformer | Mamba | LSTM |
# |---|---|---|---|
# | bits | 0.049 | 0.031 | 0.416 |
#
# On the first 15 and on all 20 observations a filter that never looks back has {glue:text}`lstm_baseline/memoryless` bits, and the uniform answer {glue:text}`lstm_baseline/uniform`. Over the filter's on
# all 20, the printed errors are {glue:text}`lstm_baseline/printed_ratios`.
#
# Here is the wind tunnel, much reduced: three states and symbols, bijections of eight symbols, two residual layers. Transformer, selective SSM, LSTM and an MLP that sees the whole prefix have about as
# many parameters; {glue:text}`tunnel/seeds` seeds each, one learning rate for all, {glue:text}`tunnel/minutes` minutes on a busy processor. Exact posteriors are checked against sums over
# all hidden paths and over all bijections. As in the published program, the target for the HMM is the posterior itself.

# %% mystnb={"image": {"alt": "Error of the entropy at each place. On hidden Markov models and on bijections the transformer, selective SSM and LSTM lie close together, well below the answers without memory, and rise beyond the training length."}} tags=["hide-input"]
tunnel = {
    name: results(name, profile, device) for name in ("tunnel_hmm", "tunnel_bijection")
}
wind_tunnel.plot_errors_by_place(tunnel, study)
style.show(of=tunnel.values())
record.all(
    wind_tunnel.lstm_baseline_records()
    | wind_tunnel.tunnel_records(*tunnel.values(), study)
)

# %% [markdown]
# *All four models track the posterior far better than answers without memory; beyond the training length (shaded) the LSTM holds best on hidden Markov models. Means over seeds, and their range at the last place.*

# %% [markdown]
# None of the four fails. On hidden Markov models the LSTM, which is said to lack transport, is
# the *best*: it carries beliefs through the dynamics, also at three times the training length. Printed is a factor of 8.5 between LSTM and transformer; here it is
# {glue:text}`tunnel/hmm/lstm_over_transformer` ($p$ over seeds {glue:text}`tunnel/hmm/p_lstm`). On bijections only an MLP that reads a single token fails ({glue:text}`tunnel/bijection/prior` bits), and
# it has no choice.
#
# | Error of the entropy, bits | transformer | selective SSM | LSTM | MLP |
# |---|---|---|---|---|
# | hidden Markov models | {glue:text}`tunnel/hmm/transformer` | {glue:text}`tunnel/hmm/ssm` | {glue:text}`tunnel/hmm/lstm` | {glue:text}`tunnel/hmm/prefix_mlp` |
# | ... at three times the length | {glue:text}`tunnel/hmm_long/transformer` | {glue:text}`tunnel/hmm_long/ssm` | {glue:text}`tunnel/hmm_long/lstm` | |
# | ... over the filter without memory | {glue:text}`tunnel/hmm/transformer_ratio` | {glue:text}`tunnel/hmm/ssm_ratio` | {glue:text}`tunnel/hmm/lstm_ratio` | |
# | bijections | {glue:text}`tunnel/bijection/transformer` | {glue:text}`tunnel/bijection/ssm` | {glue:text}`tunnel/bijection/lstm` | {glue:text}`tunnel/bijection/prefix_mlp` |
# | ... over the prior | | | {glue:text}`tunnel/bijection/lstm_ratio` | {glue:text}`tunnel/bijection/prefix_mlp_ratio` |
# | parameters, in this order | {glue:text}`tunnel/parameters` | | | |
#
# The rules compare with answers that carry nothing along: on the HMM a filter without memory has {glue:text}`tunnel/hmm/memoryless` bits, the best constant {glue:text}`tunnel/hmm/constant`, the uniform
# answer {glue:text}`tunnel/hmm/uniform`; a filter with its transition matrix turned the wrong way has {glue:text}`tunnel/hmm/turned_ratio` of the first. Training was short, so this says nothing about the
# limits of any model. But an LSTM that *cannot* transport beliefs, or MLPs that *cannot* eliminate, would look different.

# %% tags=["remove-input"]
record.verdicts("wind-tunnel", "mlp")

# %% [markdown]
# The transformer's keys do not become more orthogonal: the mean absolute cosine of the keys of $x$ and of $y$ is {glue:text}`tunnel/keys/trained` after training, {glue:text}`tunnel/keys/initial` before,
# and {glue:text}`tunnel/keys/random` for random vectors as wide as a head; what decides is the model before training. A likely reason: elimination treats all symbols alike, which asks for a common
# direction, not for separate ones. Nor do values line up:
#
# | On the HMM and on bijections | values $v_j$ | weighted values $g_i$ | printed |
# |---|---|---|---|
# | share of variance in the first component | {glue:text}`tunnel/value/pc1` | {glue:text}`tunnel/output/pc1` | 0.84 to 0.90 |
# | its correlation with the posterior's entropy | {glue:text}`tunnel/value/r` | {glue:text}`tunnel/output/r` | above 0.9 |

# %% [markdown]
# ## What to take away
# The closed forms are exact, and one pass over the queries gives them all. The paper's words about joint steps often fail. A larger rate for values makes training faster, but so does a
# larger rate for everything, and at these rates steps times rate is what counts. On the chain attention strengthens the random preferences that it starts with, and a [linear
# classifier of the present input](#do-both-find-the-same) predicts better. An advantage appears because weights sum to one: without a fixed sum no mean is subtracted.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Exercises
# The first two can be done on paper. The solutions ran with this chapter, and check their own answers.
#
# **1. Worse than average, and yet it gains.** Find weights $\alpha$ of one query and compatibilities $b$ of three keys such that a small step on the scores gives *more* attention to a key whose $b_j$ is
# above the mean $\mathbb{E}_\alpha[b]$.

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
alpha = torch.tensor([0.6, 0.1, 0.3], dtype=torch.float64)
b = torch.tensor(
    [1.0, 0.75, 0.0], dtype=torch.float64
)  # the second key: light, little above the mean
step = -0.01 * closed_forms.score_gradient(alpha, b)
change = torch.softmax(alpha.log() + step, -1) - alpha
print(
    f"b less its mean: {(b - alpha @ b).numpy()}; change of attention: {change.numpy().round(5)}"
)
# The step is weighted by alpha: the heavy first key loses most, and all share what it loses.
assert b[1] > alpha @ b
assert step[1] < 0 < change[1]
assert change[b > alpha @ b].sum() < 0  # together, the keys above the mean do lose

# %% [markdown]
# **2. Orders.** All weights of a head are small, of size $s$. In which power of $s$ does the gradient of each of $W_Q$, $W_K$, $W_V$, $W_O$ grow? And if $W_V$ alone is made smaller?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
x, y, names = (
    torch.eye(3, dtype=torch.float64),
    torch.tensor([0, 1, 1]),
    ("W_Q", "W_K", "W_V", "W_O"),
)
full = closed_forms.random_weights(
    torch.Generator().manual_seed(1), 3, 2, 2, 3, scale=1.0
)
for scaled, orders in ((names, (3, 3, 1, 1)), (("W_V",), (1, 1, 0, 1))):
    sizes = []
    for s in (0.001, 0.01):
        small = {
            name: (s if name in scaled else 0.01) * getattr(full, name)
            for name in names
        }
        found = closed_forms.every_gradient(x, y, full._replace(**small))[1]
        sizes.append([float(found[name].norm()) for name in names])
    measured = np.log10(np.array(sizes[1]) / sizes[0])
    print(f"{', '.join(scaled)} of size s: orders {measured.round(3)}")
    # W_V meets one other factor, W_O. The scores meet three: W_V, W_O and the other side of q . k.
    assert np.allclose(measured, orders, atol=0.01)

# %% [markdown]
# **3. A recurrence that routes.** The LSTM's rows do not sum to 1. Give it one gate instead of two, $F_t = 1 - I_t$ with $I_1 = 1$ (the gate of a GRU). Does it satisfy definition 9.1? Is "advantage",
# the
# gradient with $b_{ij} - \mathbb{E}_{w_i}[b]$, then exact?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
rng, one = torch.Generator().manual_seed(4), torch.ones(1, 1, dtype=torch.float64)
gates, b = (
    torch.rand(1, *size, generator=rng, dtype=torch.float64) for size in ((5,), (6, 6))
)
for routes, unroll in (
    (
        True,
        lambda i: section_9.lstm_weights(
            torch.cat([one, i], 1), torch.cat([one, 1 - i], 1)
        ),
    ),
    (
        False,
        lambda i: section_9.lstm_weights(
            torch.cat([one, i], 1), torch.cat([one, i.flip(1)], 1)
        ),
    ),
):
    # dw contracts numbers of the weights' shape with the derivative
    w, dw = torch.func.vjp(unroll, gates)
    (exact,), (form,) = dw(b), dw(-closed_forms.advantage(w, b))
    row, error = (
        float((w.sum(-1) - 1).abs().max()),
        float((form - exact).norm() / exact.norm()),
    )
    print(
        f"one gate: {routes}; rows are off 1 by up to {row:.1g}, the advantage form by {error:.1g}"
    )
    # With one gate, what a token writes it takes from the rest: the state is a mean of the values so far.
    assert (max(row, error) < 1e-12) if routes else (min(row, error) > 0.01)

# %% [markdown]
# **4. Steps times rate.** The slider's short chain, at ratio 10: does a rate ten times as large do in $n$ steps what SGD does in $10 n$? If so, which single rate for everything ends where the schedule
# ends?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
race, n = sliders.races(((10.0, 0.3),))[0], np.arange(30)  # 300 steps at base rate 0.02
off = np.abs(race.uniform[n] - race.sgd[10 * n]).max() / (race.sgd[0] - race.sgd[-1])
steps = int(np.argmax(race.uniform <= race.schedule[-1]))  # at ten times the rate
print(f"largest difference, over the fall of SGD's loss: {off:.1%}")
print(
    f"the schedule ends where 0.2 is after {steps} steps, so where {0.2 * steps / 300:.3f} for everything ends"
)
# At small rates a step follows the gradient flow, and only steps times rate count.
assert off < 0.05
assert 0.03 < 0.2 * steps / 300 < 0.1

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Errata
# Slips of the paper that leave its story as it is.
#
# - **Two advantages.** Section 8.1's $A^{adv}$ is minus the $A$ of section 3.4, and its sign is said to predict where attention strengthens. Measured on random heads, it predicts the opposite (rank
#   correlation with the step {glue:text}`prose/predicts`). Read minus $A^{adv}$.
# - **A sum or a mean.** Equation 9 sums the loss over positions. At the stated rate and length the sum is a mean with a rate of twenty: after {glue:text}`sum/steps` of 60 steps its loss is
#   {glue:text}`sum/loss`, more than ten times that of the start. For section 7.2 read a mean, as in the published program.
# - **Bits.** The text gives the entropies of its Table 1 in bits. They are nats: in bits, SGD's predictive entropy would be {glue:text}`units/sgd_bits`.
# - **Conjecture 9.2.** Section 9.3 says that section 4 proved it exactly for softmax. Equation 23, of section 3, proves it with scores $s_{ij}$; as printed, with weights $w_{ij}$, it has a factor too many.
# - **Cosines of keys.** Section 6.2 prints 0.05 to 0.06 after training against 0.08 for random vectors. The first is what *random* vectors have in 256 and 192 dimensions, the widths of the published
#   program ({glue:text}`key_cosine/widths`); the second belongs to {glue:text}`key_cosine/dimension` dimensions.

# %% tags=["hide-input"]
blown = fair_trial.summed_loss(code, PAPER_SEEDS[0], 60)
record.all(
    {"sum/loss": float(blown[-1]), "sum/steps": len(blown)}
    | wind_tunnel.key_cosine_records()
)
record.verdicts("errata")

# %% [markdown]
# ## Every claim

# %% tags=["hide-input"]
record.table()
