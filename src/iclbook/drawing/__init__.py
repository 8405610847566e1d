"""Drawing: the style that every figure of the book shares."""

from . import style

__all__ = ["style"]
