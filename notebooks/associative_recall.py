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
# # Incremental Learning in Associative Recall
#
# *A reproduction of "Incremental Learning in Transformers for In-Context Associative Recall" {cite}`recall2025`.*
#
# Training losses of transformers fall in steps: long plateaus, then a sudden drop, then another plateau. What is learned at each drop, why does it take so long, and who decides
# which comes first? The paper studies a task so regular that the questions have exact answers. A sequence lists every ordering of a few symbols, each followed by a random
# response, and then asks for one of them again. To answer, a model must match several tokens at once, and it learns to match them **one at a time**.
#
# **What came out.** The stairs can be followed exactly, and they mean what the paper says: tokens are matched one at a time, and the size of the first weights sets how long the first plateau lasts.
# Several printed formulas have slips; corrected, they give the times of all jumps. Some simplifications change the stages, and a model with all weights trained shows only part of them. (All
# letters: [below](#the-model) and in [Notation and glossary](../book/notation.md).)

# %% tags=["parameters", "remove-cell"]
profile = "paper"
device = "auto"

# %% tags=["hide-input"]
import numpy as np

from iclbook.claims import Recorder
from iclbook.drawing import style
from iclbook.drawing.diagram import show_attention
from iclbook.papers.recall2025 import (
    construction,
    end_to_end,
    figures_1_and_4,
    lemmas,
    results,
    simplifications,
    stages,
    subsequent_jumps,
    theorem_3_1,
)
from iclbook.papers.recall2025 import figures_2_and_3 as draw_jump
from iclbook.papers.recall2025 import stage_figures as draw
from iclbook.papers.recall2025.theory import Population, chained_times
from iclbook.sliders import show_model
from iclbook.tasks import AssociativeRecall

record = Recorder("recall2025", profile)
style.use()
paper = profile == "paper"
READINGS = {
    name: stages.experiment(window=window) for name, window in stages.WINDOWS.items()
}

# %% [markdown]
# ## The task
#
# Take the orderings $\pi$ of $k$ symbols and a random map $f$ from orderings to responses. The sequence is $\pi_1, f(\pi_1), \pi_2, f(\pi_2), \dots$ through all $k!$ of them,
# then a query $q$: one of the orderings, chosen at random. The right answer, $f(q)$, stands somewhere in the context. The smallest case:

# %% mystnb={"image": {"alt": "One sequence: symbols 0 1 then a response, symbols 1 0 then a response, and the query; an arrow leads from the question mark to the response that follows the same symbols."}} tags=["hide-input"]
small = AssociativeRecall(2, 2)
answers = np.array([0, 1])
draw_jump.illustration(small, 1, answers)
style.show()
shown = small.sequences(np.array([1]), answers[None])[0]
record("fig2/length", len(shown))
record(
    "fig2/shown", bool(shown[small.response_positions[1]] == small.order + answers[1])
)

# %% [markdown]
# *To answer, the model must find the ordering that the query repeats (dashed frame) and copy what follows it (arrow; paper: Figure 2). One sequence, symbols in boxes and responses in discs.*

# %% tags=["remove-input"]
record.verdict("recall2025/fig2")

# %% [markdown]
# A model that has learned to compare $m$ of the query's tokens cannot tell $(k-m)!$ orderings apart. If it answers with the frequencies of their responses, and there are $|R|$ responses, its
# expected *dot-product loss*, one minus the right answer's probability, is
#
# $$ \Bigl(1 - \tfrac{1}{|R|}\Bigr)\Bigl(1 - \tfrac{1}{(k-m)!}\Bigr). $$
#
# This is the height of plateau $m$. The whole expected loss is as simple: with the share $a_q$ of the attention on the right place it is $(1 - 1/|R|)(1 - a_q)$. It and the
# expected cross-entropy are checked by brute force over every query and map.

# %% tags=["hide-input"]
record.all(construction.task_sizes() | construction.against_enumeration())
record.verdict("recall2025/task")

# %% [markdown]
# ## The model
#
# The first layer has one head per token to be matched. Each attends by relative position only. The second layer compares what the heads found near the last token with what they
# found near every earlier one, with strength $\beta_h^2$ for head $h$. Weights that solve the task can be written down (appendix A.2): head $h$ looks $h$ tokens back, and all
# $\beta_h^2 = c$ are large.

# %% tags=["remove-input"]
show_attention(
    tokens=(r"\pi_t, f(\pi_t)", "An ordering, as the heads read it, and its response."),
    scores=(
        r"\sum_h \beta_h^2 \cdot \text{match}_h",
        "Whether head h found the same here and at the end.",
    ),
    weights=(r"\mathrm{smax}(\cdot)", "Positive, with sum one."),
    values=(r"f(\pi_t)", "The response that follows."),
    answer=(r"\mathbf p", "Probabilities of the responses."),
)

# %% [markdown]
# ```{admonition} Notation
# - $k$: order of the task and, unless said otherwise, number of heads, and of tokens back that a head sees (its *window*). $R$: set of responses, $|R|$ of them.
# - $w^h$: what head $h$ adds to its attention score for each offset $1 \dots k$ back; $e_i$ is the vector with a one at offset $i$, $1$ the vector of ones.
# - $\beta_h$: strength of head $h$ in the second layer, whose scores on symbols go through a matrix with a free number $\gamma$ off its diagonal: $(1+\gamma) I - \gamma 11^\top$, as
#   the proofs need it (the text prints [another](#errata)). $\gamma = 0$ where nothing else is said, 0.3 for theorem 3.1.
# - $\alpha$, $\delta$: where $w^h = \alpha_h e_h + \delta_h 1$, how far the head leans to its own offset, and what it adds to all. $s = e^{\alpha_1} - 1$.
# - $\gamma_h$: what a match at head $h$'s own offset adds to a score, $(1+\gamma)\beta_h^2$ times its attention there less the mean of the rest. We call the head **active** once $\gamma_h \ge 1$.
# - $\Delta_{h,i}$: the derivative of the loss in the second layer's scores, summed over the orderings that have at offset $i$ the query's symbol of offset $h$; $\mathbb{E}$ is its mean over queries
#   and maps.
# - Flow time $t$: training step times learning rate, in the limit of small steps.
# ```

# %% [markdown]
# With the simplifications A0 to A3 (below) the model is six lines. Plain gradient descent on the expected loss shows the stairs.

# %% mystnb={"image": {"alt": "Loss of the simplified model of order 3 along gradient descent: two long plateaus at the predicted heights, each left by a sudden fall."}}
import torch
from torch.nn.functional import one_hot

from iclbook.models import RecallTransformer

recall = AssociativeRecall(order=3, n_responses=4)
orderings = one_hot(
    torch.tensor(recall.permutations[:, ::-1].copy())
).double()  # (k!, k, k): the token 1, 2, ... back


def transformer(w, beta):  # (H, k) scores of offsets, (H,) strengths
    attention = w.softmax(-1)
    found = torch.einsum("hi,pis->phs", attention, orderings)  # what head h finds
    asked = orderings[:, : len(beta)]  # the query's h-th token from the end
    scores = torch.einsum("h,qhs,phs->qp", beta**2, asked, found)
    return scores.softmax(-1)  # weight of each response for each query


library = RecallTransformer(order=3, n_responses=4, n_heads=3)
library.initialise(torch.Generator().manual_seed(0))
sequence = recall.sequences(np.array([4]), np.zeros((1, 6), dtype=int))
assert torch.allclose(
    transformer(library.w, library.beta)[4],
    library.response_weights(torch.tensor(sequence)),
)

n_heads = 3  # change me: 1 or 2
assert 1 <= n_heads <= 3, "give 1, 2 or 3 heads: an ordering has three symbols"
w, losses = torch.zeros(n_heads, 3).double(), []
beta = torch.tensor([0.1, 0.05, 0.025]).double()[:n_heads]
for _ in range(600):
    w, beta = w.detach().requires_grad_(), beta.detach().requires_grad_()
    loss = (1 - 1 / recall.n_responses) * (1 - transformer(w, beta).diagonal().mean())
    slopes = torch.autograd.grad(loss, (w, beta))
    w, beta = w - slopes[0], beta - slopes[1]
    losses.append(loss.item())
fig, ax = style.figure(1, height=2.6)
ax.plot(losses, color=style.INK)
for matched in range(3):
    style.theory_line(
        ax, (0, 600), (recall.plateau_dp(matched),) * 2, f"m = {matched} matched"
    )
ax.set(xlabel="step", ylabel="expected loss", xlim=(0, 600))
style.name_ends(ax)
style.show()

# %% [markdown]
# *The loss falls in stairs, and each plateau has the predicted height. Order 3, three heads, rate 1, from $\beta = (0.1, 0.05, 0.025)$; dotted: the heights above for $m = 0, 1, 2$ matched tokens.*
# At $m = 2$ the loss is zero: two matched symbols determine the third.

# %% mystnb={"image": {"alt": "Left: the second layer's matrix at the solution, blocks on the super-diagonal only. Right: loss against the scale c: with beta above the diagonal it falls along a straight line, less steeply than the dotted line of e to the minus c; below the diagonal it rises to one."}} tags=["hide-input"]
built, solution = construction.construction(), construction.solution_matrix()
draw_jump.construction(solution, built, AssociativeRecall(3, 2))
style.show()
record.all(construction.construction_values(built))
record.all(construction.figure_three(solution) | construction.simplifications_equal())

# %% [markdown]
# *With $\beta$ above the diagonal of the second layer's matrix the constructed weights solve the task; below it they do not (paper: Figure 3). The matrix as printed, $c\,(I - \gamma 11^\top)$ in
# each block, at $\gamma = 1/2$ ($+c/2$ orange, $-c/2$ blue), and the loss of the full two-layer model against the scale $c$, order 3.*

# %% tags=["remove-input"]
record.verdicts("full-model", "fig3", "simplified")

# %% [markdown]
# The second layer's matrix has a block for each pair of heads. The query ends with its last symbol; in the context a response follows it. So what head $h-1$ finds for the query
# (head 0: its last symbol) must be compared with what head $h$ finds in the context: $\beta$ belongs above the diagonal. Even there, the loss falls more slowly than $e^{-c}$ (log slope
# {glue:text}`full/rate`): near the beginning of the sequence the last head finds nothing $k$ tokens back, spreads over what there is, and gives a wrong key a share $1/k$ of a match.
#
# The paper then simplifies: (A0) heads see a window, (A1) the second layer is held in the shape of the solution, (A2) the query side is put at its solution, (A3) the last softmax runs over
# responses only. [Near the end](#do-the-simplifications-matter) we ask what they change. Here is the simplified model with three heads on order four: gradient flow (gradient descent with infinitely
# small steps) from wherever you put the $\beta$.

# %% tags=["hide-input"]
show_model(
    draw.race(READINGS["order"]),
    title="Three β race, and the loss falls stair by stair",
    description="Heads become active one after the other, and each jump of the loss is one head. Drag the starts up and down, or move them with the arrow keys (page up and down change the head); move the time to see where each head "
    "attends. The framed square of a row is the offset that the head must find. Try: Next in front: another head begins largest, and its jump comes first.",
)

# %% [markdown]
# ## The first jump
#
# Start with one small number, $\beta_1 = \varepsilon$, and zeros elsewhere. Theorem 3.1 says that the first head's weights stay on a line, $w^1 = \alpha e_1 + \delta 1$, that
# attention to the own offset only grows, and that two numbers, $\alpha$ and $\beta$, obey
#
# $$ \dot\alpha = \frac{\beta^2 e^{\alpha}}{(e^{\alpha} + k - 1)^2} \frac{k^2}{k-1}\, \Xi, \qquad \dot\beta = 2 \beta\, \frac{e^{\alpha} - 1}{e^{\alpha} + k - 1}\, \Xi . $$
#
# These equations (the *ODE*) follow the right curve in $(\alpha, \beta)$, twice too fast. The paper sets $\Xi = -2(1+\gamma)\, \mathbb{E}\Delta_{1,1}$. The printed $\Xi$ counts a factor 2 that its
# equation 5, $\partial L/\partial\beta_h = 2\beta_h \frac{e^{\alpha_h} - 1}{e^{\alpha_h} + k - 1} (1+\gamma)\, \mathbb{E}\Delta_{h,h}$, already has.

# %% mystnb={"image": {"alt": "Alpha and beta against time: the exact flow and the ODE with half of Xi lie on one curve that jumps once; the ODE with the printed Xi jumps at half that time."}} tags=["hide-input"]
record.all(theorem_3_1.direction() | theorem_3_1.sufficient_ode())
pop, flow = theorem_3_1.run(4, 0.01)
draw_jump.first_jump(pop, flow, 0.01)
style.show()

# %% [markdown]
# *With half of the printed $\Xi$ the ODE is the exact flow; as printed it runs twice too fast. Order 4, $\varepsilon = 0.01$; dashed: printed.*

# %% tags=["remove-input"]
record.verdicts("thm3.1a-b", "dichotomy", "thm3.1c", "q-xi")

# %% [markdown]
# A softmax does not change when all scores shift. Its gradient therefore sums to zero, so the scores keep the sum 0 of the start, and $\delta = -\alpha/k$.
#
# ## The conserved quantity
#
# Dividing the two equations removes $\Xi$, and with it the loss: $f'(\alpha)\,\dot\alpha = \beta\dot\beta/2$ with $f' = \frac{k-1}{k^2} (e^\alpha - 1)(e^\alpha + k - 1) e^{-\alpha}$. Integrating,
# $f(\alpha) = 2\frac{k-1}{k^2}(\sinh\alpha - \alpha) + \frac{k-1}{k}(e^{-\alpha} + \alpha - 1)$, and $f(\alpha) - \beta^2/4$ stays as it is. (This $f$ is not the map.) The proof has this plus sign
# between the two terms of $f$, the theorem prints a minus there.

# %% mystnb={"image": {"alt": "Three candidate quantities against alpha along one flow: the one of the proof is a flat line, the one of the statement and the one with plus beta squared over four bend away."}} tags=["hide-input"]
record.all(theorem_3_1.conservation())
draw_jump.conservation(pop, flow)
style.show()
record.all(theorem_3_1.looking_away())
record.verdicts("thm3.1d", "q-conserved-sign", "q-conserved-window", "q-looking-away")
record.all(simplifications.without_window())

# %% [markdown]
# *Of three forms (proof, theorem, and the proof's with $+\beta^2/4$) only that of the proof is conserved. Order 4, against $\alpha_1$ along one flow.*

# %% tags=["remove-input"]
record.verdicts("noA0-timescale", "noA0-law")

# %% [markdown]
# The proof's law drifts by {glue:text}`conserved/proof` of the largest $\beta^2/4$ at worst over orders 2 to 5, the statement's by at least {glue:text}`conserved/statement`. As $\Xi$ drops out,
# cross-entropy keeps the same quantity. A window shorter than the orderings does not: one token of each ordering then lies outside the window; it adds to $\dot\alpha$ and $\dot\beta$ in different
# ways, so their ratio depends on the loss. Appendix A.6 says of heads that see *every* earlier token: a law and the time scale remain, and $w^1$ leaves its line. It gives no form of the law. In
# such a head, when it becomes active, the scores of the other offsets, equal on the line, differ by up to {glue:text}`noA0/spread` of the own offset's.
#
# The law gives a threshold. A head with $\alpha < 0$ and $f(\alpha) > \beta^2/4$ cannot bring $\alpha$ back to zero. Five per cent above this bound $\beta$ dies out; five per cent below, the head
# recovers and $\beta$ grows.
#
# ## How long the plateau lasts
#
# For small $\alpha$ the law says $\beta^2 = \frac{2(k-1)}{k} s^2 + \varepsilon^2$. Then $\dot s \propto \beta^2$, so $s$ is a tangent of time, and it blows up at a time $T$ with
#
# $$ \varepsilon T \;\to\; \frac{\pi}{2 E_0} \sqrt{\frac{k(k-1)}{2}}, \qquad E_0 = -(1+\gamma)\, \mathbb{E}\Delta_{1,1}\big|_{t=0} = \frac{(1+\gamma)(|R|-1)}{|R|\,k^2\,(k-2)!} . $$
#
# So a start ten times smaller waits ten times longer. Long after the jump $s$ obeys $\dot s = b\,s\,e^{-\lambda s}$ with a constant $b$ and $\lambda = 4(1+\gamma)(k-1)/k^2$: $s$ grows like
# $\frac1\lambda \log t$, $\alpha$ like $\log\log t$ and $\beta$ like $\sqrt s$, and none has a bound. (The paper prints other constants in both laws: [errata](#errata).)

# %% mystnb={"image": {"alt": "Time of the first jump against initial scale on logarithmic axes, four straight lines on their limits that rise tenfold for each tenth of the scale, and a much flatter curve for the shorter window."}} tags=["hide-input"]
epsilons = (1e-1, 1e-2, 1e-3, 1e-4)
scan = theorem_3_1.time_scale(epsilons)
window = theorem_3_1.window_times(epsilons)
late = theorem_3_1.late_growth(stages.experiment(n_heads=stages.ORDER))
draw_jump.time_scales(scan, window)
style.show()
record.all(theorem_3_1.local_law() | theorem_3_1.window_exponents())
record.all(theorem_3_1.time_scale_values(scan, window, late))

# %% [markdown]
# *The wait for the first jump grows as $1/\varepsilon$, on the limit in closed form (lines), for every order of the task; with the short window (squares) it grows far less.*

# %% tags=["remove-input"]
record.verdicts(
    "timescale",
    "local-law",
    "eq3",
    "divergence",
    "q-eps-t",
    "q-late-rate",
    "q-window-log",
)

# %% [markdown]
# The squares have a window one shorter than the ordering: in the paper's section 3 $k$ heads learn a task of order $k+1$, and (A0) fixes the window to that $k$. (In this chapter $k$ is the order.) One
# token of each ordering is then out of reach. Uniform attention over the window already says something (is the query's token *in* it?), so $\beta$ grows at once,
# exponentially, and the plateau lasts only $\log(1/\varepsilon)$: from $\varepsilon = 0.1$ to $10^{-4}$ it becomes {glue:text}`window/gain` times as long (exponent {glue:text}`window/exponent`, and
# not $-1$).

# %% [markdown]
# ## Stage by stage
#
# Three heads start with different small $\beta$ on the task of order four, $|R| = 4$, as in the paper. We follow the flow exactly with windows of four and of three, and read loss and second-layer
# attention in the middle of every plateau (in log time).

# %% mystnb={"image": {"alt": "Loss against time under the dot product and under cross-entropy: in both, three drops between four plateaus that lie on the dotted closed forms."}} tags=["hide-input"]
betas, flows = (0.02, 0.005, 0.00125), {}
for loss in ("dp", "ce"):
    p = stages.experiment(loss)
    flows[loss] = p, *stages.follow(p, betas, beyond=2.0)
record.all(stages.plateau_values(results("plateaus", profile, device)))
p, f, times = flows["ce"]
record("plateaus/ce", stages.plateau_errors(p, f.states[0], times)["loss"])
record.all(stages.loss_times(betas, flows["dp"][2], times))
record.all(subsequent_jumps.stitched() | subsequent_jumps.pronounced())
record("losses/orders_dp", stages.orders_follow(stages.experiment()))
record("losses/orders_ce", stages.orders_follow(stages.experiment("ce")))
record.all(stages.losses_agree(40 if paper else 10) | lemmas.loss_gradients())
draw.losses(
    {"dot-product loss": flows["dp"][:2], "cross-entropy (nats)": flows["ce"][:2]}
)
style.show()

# %% [markdown]
# *Every plateau has its closed form (dotted), under the dot product as under cross-entropy, which jumps earlier. Exact flow, window of four.*

# %% tags=["remove-input"]
record.verdicts(
    "plateaus",
    "losses",
    "q-ce-plateaus",
    "q-ce-jumps",
    "pronounced",
    "stitching",
    "q-chain",
)

# %% [markdown]
# With $N = (k-m)!$ orderings left, the cross-entropy plateau is $\log N - \mathbb{E} \log(1 + B)$, with a binomial $B$ of $N - 1$ draws with chance $1/|R|$. Cross-entropy divides the gradient by
# the share of right responses. This speeds up the plateau by
#
# $$ \frac{|R|\,\bigl(1 - (1 - 1/|R|)^N\bigr) - 1}{(1 - 1/|R|)(1 - 1/N)}. $$
#
# On every plateau, each head that is not yet active follows a tangent of its own, from where the jump before left it. Chained, these closed forms give the time of every jump in the limit of small
# $\beta$. The paper joins the jumps otherwise (*stitching*): each begins afresh, at the head's first $\beta$. Then the later times come out too long. The order of the jumps is the same under both losses.
#
# | Jump by jump | first, second, ... |
# |---|---|
# | measured time over that of the chain, $\varepsilon = 0.003$ | {glue:text}`stitch/carried` |
# | measured time over that of the paper's stitching | {glue:text}`stitch/afresh` |
# | time of a jump over that of the jump before, dot product | {glue:text}`losses/durations_dp` |
# | the same, cross-entropy | {glue:text}`losses/durations_ce` |
#
# How well the loss rests on a plateau depends on how far apart the heads start:
#
# | $\beta$ falls from head to head by a factor of | {glue:text}`plateaus/ratios` |
# |---|---|
# | second-layer attention and equal shares on the orderings left: difference, window of four | {glue:text}`plateaus/order/attention` |
# | the same, window of three | {glue:text}`plateaus/k/attention` |
# | the second plateau lasts (flow time), window of three | {glue:text}`plateaus/k/length` |
#
# With the window of three plateaus grow with the *logarithm* of the factor only, so heads that differ by 4 jump almost together.
#
# ### The paper's Figures 1 and 4
#
# The paper shows attention at steps 800, 1750 and 4500, after one, two and three jumps, and says neither the learning rate $\eta$ nor the momentum $\mu$ nor the initial $\beta$.
# A head that jumps at flow time $t$ does so at step $t(1-\mu)/\eta$, so the flows tell which settings fit; only $\eta/(1-\mu)$ enters. {glue:text}`fig1/tried` initial $\beta$ of
# the form (scale, scale/ratio, scale/ratio²) were tried for each window, ratios from 1.5 to $10^4$: {glue:text}`fig1/order/settings` fit with the window of four,
# {glue:text}`fig1/k/settings` with the window of three. The one with the widest range of rates is trained below by real SGD.

# %% tags=["hide-input"]
values, runs = figures_1_and_4.trained(READINGS, 50 if paper else 8)
record.all(values)

# %% mystnb={"image": {"alt": "Training with the window of four: a staircase of the loss with a sentence on every tread, from knows nothing to solved; above it attention early and at the three printed steps, where one, two and three heads attend to their own offset; below it the three beta rise one after another."}} tags=["hero", "hide-input"]
draw.training(READINGS["order"], runs["fig1", "order"])
style.show()

# %% [markdown]
# *Every stair is one more token matched: at the printed steps (dashed) one, two and three heads attend to their own token of the query, and the strength $\beta$ of each head rises as the loss falls
# (paper: Figure 1). On each tread: how many symbols the model knows, and how many orderings are left. Columns: offsets 1 to 4 back.* Window of four, SGD with momentum 0.9, one of {glue:text}`fig1/seeds`
# seeds. Learning rate {glue:text}`fig1/rate` (fitting: {glue:text}`fig1/rate_low` to {glue:text}`fig1/rate_high`), largest initial $\beta$ {glue:text}`fig1/scale`, each next one smaller by a factor of
# {glue:text}`fig1/ratio`.

# %% tags=["remove-input"]
record.verdict("recall2025/fig1")

# %% mystnb={"image": {"alt": "Training with the window of three: the batch loss falls in three steps, the last two close together; at the three printed steps one, two and three heads attend to their own offset."}} tags=["hide-input"]
draw.training(READINGS["k"], runs["fig1", "k"])
style.show()

# %% [markdown]
# *With the window of three, the paper's $k$, the heads follow each other too, from starts farther apart. Learning rate {glue:text}`fig1/k/rate` (fitting: {glue:text}`fig1/k/rate_low` to
# {glue:text}`fig1/k/rate_high`), largest initial $\beta$ {glue:text}`fig1/k/scale`, each next one smaller by a factor of {glue:text}`fig1/k/ratio`.* So the paper's Figure 1 does not tell the
# readings apart: they differ in the $\beta$ that they need.

# %% mystnb={"image": {"alt": "The same with the order of beta reversed: head three becomes active first, then head two, then head one."}} tags=["hide-input"]
draw.training(READINGS["order"], runs["fig4", "order"])
style.show()

# %% [markdown]
# *Turn the order of $\beta$ round, and the heads learn in the other order (paper: Figure 4). Window of four.*

# %% tags=["remove-input"]
record.verdict("recall2025/fig4")

# %% tags=["hide-input"]
draw.show_orders(READINGS["order"], 1.3 * flows["dp"][2].max(), few=not paper)

# %% [markdown]
# ## Later jumps
#
# Proposition A.2 says that a later jump is the first jump of a smaller task, and that heads which have learned stand still. But the offsets that are already matched stay in the
# softmax and take their share of attention: with $h-1$ tokens matched, the jump is slower by $k/(k-h+1)$.

# %% mystnb={"image": {"alt": "Bars of measured slow-down of later jumps with diamonds of the predicted factor on top of each, above the dashed line at one."}} tags=["hide-input"]
cases = [
    (f"k={k}, jump {m + 1}", *subsequent_jumps.later_jump(k, m))
    for k, m in subsequent_jumps.CASES
]
still = subsequent_jumps.stationarity()
draw.later(cases)
style.show()
record("later/ratio", [ratio for _, ratio, _ in cases])
record("later/predicted", [predicted for _, _, predicted in cases])
record.all(subsequent_jumps.stationarity_values(still) | subsequent_jumps.jump_counts())

# %% [markdown]
# *The second and third jump take longer than the theory's first jump of a smaller task, by $k/(k-h+1)$ (diamonds); the paper says equally long (dashed). Learned heads at $\beta^2 = 60$, from
# $\varepsilon = 10^{-3}$.*

# %% tags=["remove-input"]
record.verdicts("propA.2", "q-later-jump", "jumps")

# %% [markdown]
# How little do learned heads move? In the proof $c$ is the score that a match adds. The gradient is then of order $\sqrt c\, e^{-c}$, a little more than the $O(e^{-c})$ that is
# claimed: the logarithm of the gradient over $\sqrt c$ has the slope {glue:text}`propA2/slope` in $c$. The initialisation sets $\beta = c$ instead, and the gradient is far smaller. There is one jump fewer than tokens: the
# paper's $k$ jumps on order $k+1$. With as many heads as tokens the last one has nothing left to learn when all tokens but one are matched: its $\beta$ has grown by the factors
# {glue:text}`jumps/last_beta` (orders 2 to 4) when the flow is ended.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Who comes first
#
# Random first-layer scores can overturn the order of $\beta$: what counts is the ratio of their size to that of $\beta$.
#
# "At small initialization scales" the order of learning is said to be that of $\beta$. If attention starts even, $w = 0$, it is so at every scale of $\beta$. A random $w$ gives heads a head start
# of another kind. Below, three random $\beta$ and random $w$ are followed from {glue:text}`census/runs` initialisations for each scale of $\beta$ and each ratio of the scale of $w$ to it.

# %% mystnb={"image": {"alt": "Left: share of pairs of heads in the order of beta against the scale of beta, one curve for each ratio of w to beta: all are nearly flat, from one at ratio zero down towards chance at ratio ten. Right: share of runs in which all heads became active, lower for larger ratios."}} tags=["hide-input"]
grid, swept = stages.GRIDS[profile], results("census", profile, device)
shares = stages.shares(grid, swept[f"{profile}/times"])
style.show(draw.order_shares(shares, grid.beta_scales, grid.ratios), of=[swept])
record.all(stages.order_values(shares, grid) | subsequent_jumps.symmetry())

# %% [markdown]
# *The ratio of the two scales decides who comes first, not their size. Share of pairs of heads in the order of $\beta$, and of runs in which all heads became active; a curve for each ratio, each
# point {glue:text}`census/runs` initialisations, window of four.*

# %% tags=["remove-input"]
record.verdicts("order", "q-order-census")

# %% [markdown]
# The curves are almost flat: making the whole initialisation smaller does not restore the order of $\beta$. Where both scales are
# equal the shares are, from the smallest to the largest, {glue:text}`census/joint`. There is a reason: near the origin $\dot w \propto \beta^2$ and $\dot\beta \propto \beta\,w$ with constant
# coefficients, so $(w, \beta, t) \to (\lambda w, \lambda\beta, t/\lambda)$ leaves the equations as they are, and the common scale sets the clock only. What decides is the ratio of $w$ to $\beta$:
# the sentence on the order of learning holds for $w = 0$, where the paper's theorems start, and not where $w$ is drawn at the scale of $\beta$. Heads whose random $w$ leans away from their offset
# can stay silent for very long: at the largest ratio and one of the scales, all heads are active in a share of only {glue:text}`census/finished` of the runs when the flow is ended.

# %% [markdown]
# ## Do the simplifications matter?
#
# The paper calls A0, A2 and A3 mild. Here each is lifted alone and together with the others, order three, and the flow starts from $\beta = (0.3, 0.1, 0.03)$, $w = 0$. Stages are judged twice: by
# when heads become active, and by the *normalised* loss, of the output divided by its sum over the responses: its plateaus are the same in every variant.

# %% mystnb={"image": {"alt": "Loss of eight models against time, a panel each. With the window kept, lifting A3 brings the two drops close together. With the window lifted, learning is slower, and the two models without A3 stay at their start."}} tags=["hide-input"]
found = simplifications.lifted()
draw.lifted(found, AssociativeRecall(simplifications.LIFTED_ORDER, stages.R))
style.show()
record.all(simplifications.lifted_values(found))
record.all(simplifications.kept_apart(found))
if paper:
    others = results("lifted", profile, device)
    for reading in simplifications.READINGS:
        kept = simplifications.kept_lifted(others, reading)
        record.all(simplifications.kept_apart(kept, f"/{reading}"))
record("full/A6_difference", simplifications.normalised_difference())

# %% [markdown]
# *The two jumps stay apart without A2, and run together without A3 (window kept). Normalised loss of the eight variants, order three, a panel with the window of A0 and one without; dotted: plateaus of $m$ matched tokens.*
# At order four the jumps do not stay apart without A2 ([next section](#the-query-side)).

# %% tags=["remove-input"]
record.verdicts("q-idle-head", "q-simplifications")

# %% [markdown]
# Lifting A0 makes the first plateau {glue:text}`full/A0/longer` times as long, since attention starts spread over the whole sequence. {glue:text}`full/lost` of the eight variants never leave their
# start within the time followed. With a larger $\gamma$ or larger $\beta$ they do leave it, and others lose their stages, so the question is judged in four settings: with a $\gamma$ of 0, 1/2 and 1
# from small $\beta$, and with $\gamma = 0$ from larger $\beta$.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### The query side
#
# A2 puts the last token's embeddings at their solution. Without it head $h$ asks for what head $h-1$ found, a mean over the window until that head is active.
# Appendix A.6 says that the argument holds where $\beta_1 > \beta_2 > \beta_3$; appendix A.2 says, without that condition, that A2 does not affect the dynamics. It does: at order four, without A2, the third head
# stays inactive where $\beta$ falls from head to head; where it rises, all jumps merge.

# %% mystnb={"image": {"alt": "A2 lifted, loss and activation of three heads. Beta falling: three drops, the last one soon after the second, and the third head stays inactive. Beta rising: one long plateau, then everything drops together."}} tags=["hide-input"]
record.all(simplifications.a2_values())
draw.own_queries(simplifications.falling_and_rising())
style.show()

# %% [markdown]
# *With A2 lifted the third head is left out where $\beta$ is largest in head 1; where it is largest in head 3, the loss falls in one jump. Loss with the plateaus of $m$ matched tokens (dotted), and what a match adds to each head's score; order four.*

# %% tags=["remove-input"]
record.verdicts("full-dynamics", "a2-mild")

# %% [markdown]
# Jumps are apart if each comes at least 1.2 times as late as the one before. With A2 they are in {glue:text}`a2/kept_apart` orders of six, without it in {glue:text}`a2/apart`. Where $\beta$ falls, the
# loss still falls three times, but its third drop comes only {glue:text}`a2/falling_apart` times as late as the second. Head 2 makes it, not head 3: learned heads keep turning, as query and key now grow
# together, until head 2 attends to two offsets at once; {glue:text}`a2/falling_active` of three heads become active. Where $\beta$ rises, as in the paper's Figure 4, all drops come at once.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### The last softmax
#
# Appendix A.6 avoids A3 by a value matrix that reads responses and divides the output by its sum. That is the model with A3, to rounding. Without the division, a softmax over all tokens must learn
# to look at responses *and* to match. Its heads become active in order, but so quickly that the stairs merge.

# %% tags=["remove-input"]
record.verdict("recall2025/q-a3")

# %% [markdown]
# Matching comes first: responses hold {glue:text}`a3/mass_start` of the attention at the start and still only {glue:text}`a3/mass_at_half` when the accuracy among
# them has risen halfway. Matching in turn raises the scores of responses, since the tokens before them are the ones that match in full. The heads become active in order, but close together (the
# last after {glue:text}`a3/last_over_first` times the time of the first), and the third is needed now, for keys that are not responses match two tokens too.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ### Trained end to end
#
# Last, the whole model: a free second-layer matrix, nothing put at its solution, trained by SGD with momentum from random weights, at the paper's size: order four and four responses. Some
# plateaus stay, others are passed by.

# %% mystnb={"image": {"alt": "Three columns. Top: loss of several seeds. From initial scale 0.1 it passes the first plateau value and rests at the second; from 0.01 it only slows down at both; with everything lifted some seeds stay at the second value to the end. Bottom: attention of the heads by offset at the end; most heads attend to one offset."}} tags=["hide-input"]
trainings = {
    name: results(name, profile, device) for name in ("free_window", "free_lifted")
}
free = end_to_end.trained(trainings)
names = ("window kept, scale 0.1", "window kept, scale 0.01", "all lifted, scale 0.01")
shown = dict(zip(names, free.values(), strict=True))
style.show(draw.free(shown), of=trainings.values())
record.all(end_to_end.free_values(free))

# %% [markdown]
# *Trained whole, the model rests at some plateaus and passes others by; most heads end at one offset. Loss of every seed in each of three settings (numbers of seeds: {glue:text}`full/seeds`), and below attention at
# the end, first seed. Learning rate 0.3, momentum 0.9.*

# %% tags=["remove-input"]
record.verdicts("end-to-end", "mirror")

# %% [markdown]
# With the window kept all seeds learn the task. With everything lifted a share of {glue:text}`free/learned_lifted` do within 6,000 steps; most of
# the others end near the plateau of two matched tokens. From scale 0.01 the first fall comes {glue:text}`free/first_later` times later than from 0.1, not ten times. The simplified model has $\beta$ twice, as $\beta^2$, and a free
# matrix enters once, so it does not test the paper's law of lengths. Say that a loss "rests" at a plateau if it falls there at most a tenth as fast as at the jumps on both sides.
#
# | Rests at the first and second inner plateau | share of the seeds |
# |---|---|
# | whole model, window kept, scale 0.1 | {glue:text}`free/rests_each` |
# | simplified model from the same first-layer scores and random $\beta$ | {glue:text}`free/simplified_each` |
# | whole model, scale 0.01, both plateaus: shoulders that are nowhere flat | {glue:text}`free/rests_small` |
# | everything lifted, both: an upper bound, as noise alone can meet the criterion in slow training | {glue:text}`free/rests_lifted` |
#
# | Three of the four offsets find a head of their own | share of the seeds |
# |---|---|
# | window kept, scale 0.1 | {glue:text}`free/found_window` |
# | window kept, scale 0.01 | {glue:text}`free/found_small` |
# | everything lifted | {glue:text}`free/found_lifted` |

# %% [markdown]
# ## What to take away
#
# Tokens are matched one at a time, and the size of the first weights sets how long the first plateau lasts. Corrected, the printed formulas give the times of all jumps. Which head comes first
# depends on $\beta$ if attention starts even, else on the scale ratio of $w$ and $\beta$. How far this reaches is open: some of the simplifications change the stages, and a model that is trained
# whole shows only part of them.

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Exercises
#
# Each can be solved with what this chapter imports. The solutions ran with the chapter and check their own answers.
#
# **1. Plateaus by counting.** Three symbols, two responses. A model compares the last $m$ tokens and answers with the frequencies among the orderings that it cannot tell apart.
# Compute its expected loss for $m = 0, \dots, 3$ on paper. Why are there only two stairs?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
task = AssociativeRecall(3, 2)
asked, maps = task.enumerate()  # every query with every map from orderings to responses
tails = task.permutations[:, ::-1]  # last token first
losses = []
for m in range(4):
    alike = (tails[asked][:, None, :m] == tails[None, :, :m]).all(
        -1
    )  # orderings that match m tokens
    right = maps == np.take_along_axis(
        maps, asked[:, None], 1
    )  # orderings with the right response
    losses.append(float(np.mean(1 - (alike & right).sum(1) / alike.sum(1))))
print(losses)
# (1 - 1/2)(1 - 1/(3 - m)!): two matched tokens of three determine the third
assert np.allclose(losses, [5 / 12, 1 / 4, 0, 0])

# %% [markdown]
# **2. More answers, less waiting.** Does the first plateau last longer if there are more responses to choose from? By how much at most? Use the limit of $\varepsilon T$ above,
# then measure it.

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
waits = []
for responses in (2, 4, 100):
    model = Population(AssociativeRecall(3, responses), n_heads=3, window=3)
    waits.append(0.001 * theorem_3_1.jump_time(model, 0.001))
print([round(wait, 1) for wait in waits])
# the limit goes as |R| / (|R| - 1): from two responses to infinitely many the wait only halves
assert np.allclose(
    np.array(waits) / waits[0], [1, (4 / 3) / 2, (100 / 99) / 2], rtol=0.01
)

# %% [markdown]
# **3. A tie.** What happens if two of three heads start at exactly the same $\beta$, and what if all three do? Guess which plateaus the loss will skip, then follow the flow.

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
model = READINGS["order"]
ties = np.array([[0.02, 0.02, 0.002], [0.02, 0.02, 0.02]])
jumps = stages.activations(
    model, stages.small(model, ties), stages.patience(model, ties)
)
print(jumps.round())
# No head sees an order that the others do not see: equal heads stay equal, and jump at one time. The first start
# goes straight to the plateau of two matched tokens, the second from the first plateau to zero loss.
assert np.isclose(jumps[0, 0], jumps[0, 1], rtol=1e-3)
assert jumps[0, 2] > 1.5 * jumps[0, 0]
assert np.ptp(jumps[1]) < 1e-3 * jumps[1].max()

# %% [markdown]
# **4. Let the smaller one win.** Head 1 starts at $\beta = 0.02$, head 2 at 0.01, head 3 at 0.005. Find a $w$ from which head 2 becomes active first. Does it still, if
# $w$ and $\beta$ are ten times smaller?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
model, lean = READINGS["order"], np.zeros((3, 4))
betas = np.array([0.02, 0.01, 0.005])
even = model.join(lean, betas)
lean[1] = [-0.05, 0.15, -0.05, -0.05]  # head 2 already leans towards its own offset
start = model.join(lean, betas)
times = stages.activations(
    model, np.stack([even, start, start / 10]), until=2e5, rtol=1e-5
)
print(times.round())
# from w = 0 the largest beta is first; with the lean head 2 is, and the common scale changes the clock only
assert times.argmin(1).tolist() == [0, 1, 1]
assert np.allclose(times[2] / times[1], 10, rtol=0.2)

# %% [markdown]
# **5. One stair more.** Four heads on the task of order five start at $\beta = 0.02$, each next one four times smaller. Predict all four jump times with the chain of closed
# forms (`chained_times`), then follow the flow. Is the chain early or late? Does it get better for smaller $\beta$?

# %% tags=["hide-cell", "solution"] mystnb={"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
model = stages.experiment(order=5, n_heads=4)
off = []
for largest in (0.2, 0.02):
    betas = largest / 4.0 ** np.arange(4)
    measured = stages.activations(
        model, stages.small(model, betas)[None], stages.patience(model, betas)
    )[0]
    off.append(measured / chained_times(tuple(betas), order=5, n_responses=4) - 1)
print(np.round(off, 3))
# the heads become active shortly before the tangent blows up, so the chain is late; less so for smaller beta
assert (np.array(off) < 0).all()
assert (np.abs(off[1]) < np.abs(off[0])).all()
assert np.abs(off[1]).max() < 0.05

# %% [markdown] jp-MarkdownHeadingCollapsed=true
# ## Errata
#
# Five forms are printed in two ways, and one of the two is right.
#
# The table gives the error that each leaves: the loss of the construction at $c = 40$ in the first row, the largest error of the equation in the others.
#
# | Where | Printed | Error | Also printed | Error |
# |---|---|---|---|---|
# | Section 2.2 | $\beta^2$ on the sub-diagonal of $Q^\top K$ | {glue:text}`full/loss_sub` | on the super-diagonal ($B$ of A.2) | {glue:text}`full/loss_last` |
# | Table of A.2 | the query is $R_{t-1}$ | {glue:text}`table/printed` | $R_{l-1}$ (Section 2.2) | {glue:text}`table/last` |
# | A.2, lemma C.1 | $\tilde I_k = I - \gamma 11^\top$ | {glue:text}`lemmaC1/printed` | $(1+\gamma) I - \gamma 11^\top$ (proof) | {glue:text}`lemmaC1/lemma` |
# | Lemma C.3 | $e^{\alpha_1 - 1}$ in $\gamma_1$ | {glue:text}`lemmaC3/weight_printed` | $e^{\alpha_1} - 1$ (equation 13) | {glue:text}`lemmaC3/weight_eq13` |
# | Proof of D.1 | 0 above the diagonal of $A$ | {glue:text}`lemmaD1/zeros` | $-\infty$ (equation 1) | {glue:text}`lemmaD1/error` |
#
# With $I - \gamma 11^\top$ the number $\gamma$ cancels in the softmax, so no factor $1 + \gamma$ can appear. The simplified column of the table of A.2 is right (error
# {glue:text}`table/simplified`).

# %% tags=["hide-input"]
record.all(lemmas.lemma_values())
record.verdicts("misprints", "lemmaC.1-C.3", "lemmaD.1-D.2")

# %% [markdown]
# **Equation 12** prints one prefactor, $e^{\alpha_h + \delta_h}$, for all entries of $w^h$. Equation 6 has the right one: $e^{\alpha_h}$ for the head's own entry and 1 for the
# others.
#
# **Two constants after theorem 3.1.** Near the start the text prints $\beta^2 \approx 4 s^2 + \varepsilon^2$; the conserved quantity gives $2(k-1)/k$ in place of 4. Equation 3 prints
# $\lambda = 1$ in the late law, and the text calls its right side, $bT$, the exponential integral, which stands on the left. The exponent 2 is that of the speed; the paper cited for "information
# exponent" counts that of the loss, 3.
#
# **Other slips.** Section 2.2 once writes the scores as $\sigma(X Q^\top K X^\top)$, with $X$ for $R$: the shapes do not fit. Lemma C.3 prints $e_h^1$ for $e_1^k$. Line 417 of the
# proof has $k - 1$ where line 419 has the right $k$, line 420 says $\dot\alpha_1 < 0$, and line 421 loses the square of $e^{\alpha_1} + k - 1$.

# %% [markdown]
# ## Every claim

# %% tags=["hide-input"]
record.table()
