"""Figures of the chapter on nagy2026; each function draws one and shows what its caption in the chapter says."""

from .algebra import figure_1, reweighting
from .deep import ablation, ablation_changes, depth_course, depth_grid, guided, guided_layers
from .frames import show_gains, show_layers, show_spectrum, show_temperature
from .one_layer import alignment_gains, diversity, dynamics, masks

__all__ = [
    "ablation", "ablation_changes", "alignment_gains", "depth_course", "depth_grid", "diversity", "dynamics", "figure_1", "guided", "guided_layers",
    "masks", "reweighting", "show_gains", "show_layers", "show_spectrum", "show_temperature",
]  # fmt: skip
