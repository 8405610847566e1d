"""The records of the multi-task claims of he2025 (Figures 3.2 to 3.5), in the setting of the text and in that of the published code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....store import Results
from ....tasks import MultiTaskRegression
from . import multitask_heads as multitask
from .circuits import MultiHeads, code_scale, read_multi_heads
from .sampling import run_sd

Records = dict[str, Any]
#: Heads of two tasks by number of heads.
ByCount = Mapping[int, MultiHeads]


def read(results: Results, task: MultiTaskRegression, reading: str) -> dict[int, MultiHeads]:
    """Heads of one to four, in the setting of the ``text`` or of the published ``code``, which scales its scores."""
    scale = 1.0 if reading == "text" else code_scale(task.d, task.n_tasks)
    return {h: read_multi_heads(results.group(f"h{h}"), task.supports, scale) for h in (1, 2, 3, 4)}


def _sd(values: list[float], runs: int) -> float:
    """Standard deviation over runs of values listed task by task, in each run by run, with one or more for each run."""
    return run_sd(*np.reshape(values, (2, runs, -1)))


def _worst(by_run: list[np.ndarray]) -> list[float]:
    return [float(runs.max()) for runs in by_run]


def _sds(by_run: list[np.ndarray]) -> list[float]:
    return [run_sd(runs) for runs in by_run]


def pattern(text: ByCount, code: ByCount) -> Records:
    """The global pattern: the worst active head and run of each head count."""
    t, c = multitask.pattern(text), multitask.pattern(code)
    return {
        "multitask/text/kq_deviation": _worst(t["kq_deviation"]),
        "multitask/text/kq_deviation_sd": _sds(t["kq_deviation"]),
        "multitask/text/ov_deviation": _worst(t["ov_deviation"]),
        "multitask/text/ov_deviation_sd": _sds(t["ov_deviation"]),
        "multitask/code/kq_deviation": _worst(c["kq_deviation"]),
        "multitask/code/kq_deviation_sd": _sds(c["kq_deviation"]),
        "multitask/code/ov_deviation": _worst(c["ov_deviation"]),
        "multitask/code/ov_deviation_sd": _sds(c["ov_deviation"]),
    }


def one_head(text: ByCount, code: ByCount) -> Records:
    """Figure 3.2, a value per run."""
    t, c = (multitask.one_head(by_h[1]) for by_h in (text, code))
    return {
        "fig3.2/text/shared_over_own": t["shared_over_own"],
        "fig3.2/text/shared_over_own_sd": run_sd(t["shared_over_own"]),
        "fig3.2/text/omega_own": t["omega_own"],
        "fig3.2/text/omega_own_sd": run_sd(t["omega_own"]),
        "fig3.2/text/mu_difference": t["mu_difference"],
        "fig3.2/text/mu_difference_sd": run_sd(t["mu_difference"]),
        "fig3.2/code/shared_over_own": c["shared_over_own"],
        "fig3.2/code/shared_over_own_sd": run_sd(c["shared_over_own"]),
        "fig3.2/code/omega_own": c["omega_own"],
        "fig3.2/code/omega_own_sd": run_sd(c["omega_own"]),
        "fig3.2/code/mu_difference": c["mu_difference"],
        "fig3.2/code/mu_difference_sd": run_sd(c["mu_difference"]),
    }


def two_heads(text: ByCount, code: ByCount) -> Records:
    """Figure 3.3, a value per run."""
    t, c = (multitask.two_heads(by_h[2], by_h[1]) for by_h in (text, code))
    return {
        "fig3.3/text/asymmetry": t["asymmetry"],
        "fig3.3/text/asymmetry_sd": run_sd(t["asymmetry"]),
        "fig3.3/text/shared_over_own": t["shared_over_own"],
        "fig3.3/text/shared_over_own_sd": run_sd(t["shared_over_own"]),
        "fig3.3/text/omega_own": t["omega_own"],
        "fig3.3/text/omega_own_sd": run_sd(t["omega_own"]),
        "fig3.3/text/over_single": t["over_single"],
        "fig3.3/text/over_single_sd": run_sd(t["over_single"]),
        "fig3.3/code/asymmetry": c["asymmetry"],
        "fig3.3/code/asymmetry_sd": run_sd(c["asymmetry"]),
        "fig3.3/code/shared_over_own": c["shared_over_own"],
        "fig3.3/code/shared_over_own_sd": run_sd(c["shared_over_own"]),
        "fig3.3/code/omega_own": c["omega_own"],
        "fig3.3/code/omega_own_sd": run_sd(c["omega_own"]),
        "fig3.3/code/over_single": c["over_single"],
        "fig3.3/code/over_single_sd": run_sd(c["over_single"]),
    }


def four_heads(text: ByCount, code: ByCount) -> Records:
    """Figure 3.4, a value per run; heads are counted for each sign and task, sums listed by task."""
    runs, runs_code = (len(by_h[4].mu) for by_h in (text, code))
    t, c = (multitask.four_heads(by_h[4]) for by_h in (text, code))
    return {
        "fig3.4/text/mu_leak": t["mu_leak"],
        "fig3.4/text/mu_leak_sd": run_sd(t["mu_leak"]),
        "fig3.4/text/support_leak": t["support_leak"],
        "fig3.4/text/support_leak_sd": run_sd(t["support_leak"]),
        "fig3.4/text/heads_per_cell": t["heads_per_cell"],
        "fig3.4/text/mu_omega": t["mu_omega"],
        "fig3.4/text/mu_omega_sd": _sd(t["mu_omega"], runs),
        "fig3.4/code/mu_leak": c["mu_leak"],
        "fig3.4/code/mu_leak_sd": run_sd(c["mu_leak"]),
        "fig3.4/code/support_leak": c["support_leak"],
        "fig3.4/code/support_leak_sd": run_sd(c["support_leak"]),
        "fig3.4/code/heads_per_cell": c["heads_per_cell"],
        "fig3.4/code/mu_omega": c["mu_omega"],
        "fig3.4/code/mu_omega_sd": _sd(c["mu_omega"], runs_code),
    }


def three_heads(text: ByCount, code: ByCount) -> Records:
    """Figure 3.5, a value per run; sums are listed by task."""
    runs, runs_code = (len(by_h[3].mu) for by_h in (text, code))
    t, c = (multitask.three_heads(by_h[3]) for by_h in (text, code))
    pairs, pairs_code = (multitask.three_heads(by_h[4])["opposite_heads"] for by_h in (text, code))
    return {
        "fig3.5/text/opposite_heads": t["opposite_heads"],
        "fig3.5/text/opposite_of_four": pairs,
        "fig3.5/text/sum_on": t["sum_on"],
        "fig3.5/text/sum_on_sd": _sd(t["sum_on"], runs),
        "fig3.5/text/sum_off": t["sum_off"],
        "fig3.5/text/sum_off_sd": _sd(t["sum_off"], runs),
        "fig3.5/code/opposite_heads": c["opposite_heads"],
        "fig3.5/code/opposite_of_four": pairs_code,
        "fig3.5/code/sum_on": c["sum_on"],
        "fig3.5/code/sum_on_sd": _sd(c["sum_on"], runs_code),
        "fig3.5/code/sum_off": c["sum_off"],
        "fig3.5/code/sum_off_sd": _sd(c["sum_off"], runs_code),
    }


def three_over_four(text: Mapping[str, np.ndarray], code: Mapping[str, np.ndarray]) -> Records:
    """Figure 3.5: errors of three heads over those of four, on common prompts, a value per run; and of two heads, which do not suffice."""
    t, c = (arrays["h3/error"] / arrays["h4/error"] for arrays in (text, code))
    two, two_code = (arrays["h2/error"] / arrays["h4/error"] for arrays in (text, code))
    return {
        "fig3.5/text/error_ratio": t.tolist(),
        "fig3.5/text/error_ratio_sd": run_sd(t),
        "fig3.5/text/two_over_four": two.tolist(),
        "fig3.5/code/error_ratio": c.tolist(),
        "fig3.5/code/error_ratio_sd": run_sd(c),
        "fig3.5/code/two_over_four": two_code.tolist(),
    }


def transfer(three: MultiHeads) -> Records:
    """The steps that three heads of the first run make: task by feature group."""
    return {"multitask/transfer3": three.transfer()[0].ravel().tolist()}


def multitask_records(text: ByCount, code: ByCount) -> Records:
    """All that is read from circuits alone."""
    parts = (pattern, one_head, two_heads, four_heads, three_heads)
    return {key: value for part in parts for key, value in part(text, code).items()} | transfer(text[3])
