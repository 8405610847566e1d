"""The faults that a review planted and no test noticed, as replacements of texts: between a run and its record, in every paper."""

from mutations import Fault


def _planted(paper: str, where: str, name: str, old: str, new: str) -> Fault:
    path = f"src/iclbook/{where}" if where.startswith(("models/", "tasks/")) else f"src/iclbook/papers/{paper}/{where}"
    return Fault(paper, path, "planted", f"{paper}/{where} ({name})", old, new)


def _he() -> tuple[Fault, ...]:
    def at(*words: str) -> Fault:
        return _planted("he2025", *words)

    multitask = "figures_3_2_to_3_5.py"
    bound = "np.asarray(gamma, dtype=np.float64) * d"
    return (
        at(multitask, "a head serves when it hardly does", "SERVES = 0.1", "SERVES = 0.01"),
        at(multitask, "a head serves only in full", "SERVES = 0.1", "SERVES = 0.6"),
        at(multitask, "sums of features that are used", "sums[:, n, UNUSED[n]]", "sums[:, n, USED[n][0]]"),
        at("figure_3_1.py", "covariates not centred", "y, x - x.mean(0))", "y, x)"),
        at("runs.py", "another target", "- batch.target) ** 2)", "- 0.9 * batch.target) ** 2)"),
        at("predictors.py", "a bound in the square of d", bound, f"{bound} * d"),
    )


def _agarwal() -> tuple[Fault, ...]:
    def at(*words: str) -> Fault:
        return _planted("agarwal2025", *words)

    runs, trial, toy = "chain_runs.py", "fair_trial.py", "toy_runs.py"
    forward, backward = "(logs.exp() * (logs - reference))", "(reference.exp() * (reference - logs))"
    best, worst = 'float(curve["held_out"].mean(1).min()) for', 'float(curve["nll"].mean(1).min()) for'
    spread = 'float(sgd["nll"][-1].std(ddof=1))'
    return (
        at(runs, "divergence reversed", forward, backward),
        at(runs, "held-out loss on the training targets", "-fresh.gather(1, y_new", "-fresh.gather(1, y"),
        at("figures_6_to_8.py", "spread without its degree of freedom", spread, spread.replace("ddof=1", "ddof=0")),
        at(trial, "best by the training loss", best, worst),
        at(trial, "the smaller of q and k", "v / np.maximum(q, k)", "v / np.minimum(q, k)"),
        at(trial, "factor of entries inverted", "10 / 15)", "15 / 10)"),
        at(trial, "factor of entries of o inverted", "8 / 20))", "20 / 8))"),
        at(toy, "a bump thrice as high", 'found["rise"] <= BUMP', 'found["rise"] <= 3 * BUMP'),
        at(toy, "exponential of the mean entropy", ".sum(-1)).exp().mean(-1)", ".sum(-1)).mean(-1).exp()"),
        at("closed_forms.py", "spread of the first token", "spread[0] = torch.nan", "spread[0] = 0"),
        at("closed_forms_checked.py", "keys do not move", ' + closed.scores(f.q, printed["k"])', ""),
    )


def _recall() -> tuple[Fault, ...]:
    def at(*words: str) -> Fault:
        return _planted("recall2025", *words)

    stages, lifted = "stages.py", "simplifications.py"
    return (
        at(stages, "w is not scaled with beta", "ratio * scale * shift", "ratio * shift"),
        at(stages, "silent heads are in order", "times[..., i] < times[..., j]", "times[..., i] <= times[..., j]"),
        at("theorem_3_1.py", "late clock", "np.exp(tau) * theory.ode", "np.exp(tau / 2) * theory.ode"),
        at(lifted, "raw for normalised loss", '-run["normalised"][:, None]', '-run["loss"][:, None]'),
        at(
            "tasks/associative_recall.py",
            "labels of another query",
            "answers.gather(-2, queries)",
            "answers[..., :1, :]",
        ),
    )


def _nagy() -> tuple[Fault, ...]:
    return (
        _planted(
            "nagy2026",
            "section_9_2.py",
            "a ratio of ends",
            "(curve[..., -1] / start) **",
            "(start / curve[..., -1]) **",
        ),
    )


def _wang() -> tuple[Fault, ...]:
    def at(*words: str) -> Fault:
        return _planted("wang2025", *words)

    erasure, mix = "erasure.py", "step @ self.mix[m]"
    return (
        at("contexts.py", "tested on the training draw", "VALIDATION, TEST = 1, 2", "VALIDATION, TEST = 1, 0"),
        at(erasure, "a wider kernel", "** 2 / 2))", "** 2 / 4))"),
        at(erasure, "weights astray count twice", ".abs().sum(-1) / 2  #", ".abs().sum(-1)  #"),
        at("models/functional_gd.py", "mixing matrix transposed", f"{mix}.T", mix),
        at("figures_10_and_11.py", "queries times queries", 'rkj->rij", a, b)', 'rkj->rij", a, a)'),
        at("figures_3_to_5.py", "gap of the wrong sign", "first[:n] - second[:n]", "second[:n] - first[:n]"),
        at("parameter_counts.py", "fewer positions", "(50_257, 256, 512)", "(50_257, 255, 512)"),
        at("models/trained_tf.py", "weights not smaller with depth", "CODE_SCALE / self.layers", "CODE_SCALE"),
    )


PLANTED = (*_he(), *_agarwal(), *_recall(), *_nagy(), *_wang())

_OFF_THE_BOUND = "no number of either profile lies on the bound"
#: Drawn faults that change nothing, by their place and what they exchange, and why: they do not count where they survive.
CHANGES_NOTHING = {
    ("he2025/figure_2_7.py in flow_records", 'found["times"] >= 1e6'): _OFF_THE_BOUND,
    ("agarwal2025/sentences.py in _routing", "a < 0"): _OFF_THE_BOUND,
    ("crossing/descent_ladder.py in lines", "digits[:, ::2] - 4.5"): "all x mirrored, as are the weights",
    ("recall2025/subsequent_jumps.py in later_jump", "4"): "a limit of time that no flow reaches",
    ("nagy2026/section_5.py in records", "answers <= off.y.max()"): _OFF_THE_BOUND,
}
