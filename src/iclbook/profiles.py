"""The two sizes at which every chapter runs."""

from __future__ import annotations

from .errors import UserError

#: From small to large. ``smoke`` trains for real in seconds; ``paper`` is the paper's own size, steps and seeds.
PROFILES = ("smoke", "paper")


def check_profile(name: str) -> str:
    """Return ``name`` if it is a profile.

    Raises:
        UserError: unknown profile.
    """
    if name not in PROFILES:
        raise UserError(f"unknown profile {name!r}", f"Choose one of: {', '.join(PROFILES)}.")
    return name


def at_least(profile: str, needed: str) -> bool:
    """Whether ``profile`` is as large as ``needed``."""
    return PROFILES.index(check_profile(profile)) >= PROFILES.index(check_profile(needed))
