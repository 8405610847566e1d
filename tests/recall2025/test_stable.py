"""recall2025: what is chosen by a rule does not hang on rounding."""

from __future__ import annotations

import math

from iclbook.papers.recall2025.runs import trainings


def test_of_equally_wide_settings_the_first_is_chosen_whatever_the_rounding():
    def setting(scale: float, low: float, high: float) -> trainings.Setting:
        return trainings.Setting(scale, 6.0, low, high, (1.0, 2.0, 3.0))

    for high in (2.1875, math.nextafter(2.1875, 0), math.nextafter(2.1875, 3)):
        tied = [
            setting(1.0, 1.0, 2.0),
            setting(0.3, 1.0, high),
            setting(0.1, 1.0, 2.1875),
            setting(0.03, 2.0, 1.0),
        ]
        assert trainings.choose(tied).scale == 0.3
    assert trainings.choose([setting(0.03, 2.0, 1.0)]) is None
    assert trainings.choose([]) is None
