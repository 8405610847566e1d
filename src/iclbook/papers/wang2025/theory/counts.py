"""Attention-weight parameters of the language models (wang2025, section 6.3 and table 3): which formulas give 8K and 6M."""

from __future__ import annotations

#: Section 6.3: embedding dimension, heads, vocabulary, positions (one more for the GD model).
WIDTH, HEADS, VOCABULARY, CONTEXT = 512, 8, 50_257, 256


def gd_counts() -> dict[str, int]:
    """Readings of the GD model's attention weights."""
    diagonal, vector = HEADS * WIDTH, HEADS * WIDTH
    return {
        "Lambda_m and a scalar alpha_m (text)": diagonal + HEADS,
        "Lambda_m, a scalar alpha_m and P_m (text, appendix H)": diagonal + HEADS + HEADS * WIDTH**2,
        "Lambda_m and a vector alpha_m": diagonal + vector,
        "separate diagonals for queries and keys": 2 * diagonal,
        "Lambda_m, alpha_m and full P_m": diagonal + vector + HEADS * WIDTH**2,
    }


def transformer_counts() -> dict[str, int]:
    """Readings of the one-layer Transformer's attention weights."""
    return {
        "heads of width 64: W_Q, W_K, W_V, W_O": 4 * WIDTH**2,
        "heads of full width: W_Q, W_K, W_V": 3 * HEADS * WIDTH**2,
        "heads of full width: W_Q, W_K, W_V, W_O": 4 * HEADS * WIDTH**2,
    }


def rest_counts() -> dict[str, int]:
    """What neither number includes."""
    return {
        "token embeddings": VOCABULARY * WIDTH,
        "positions, GD": (CONTEXT + 1) * WIDTH,
        "positions, Transformer": CONTEXT * WIDTH,
        "feed-forward, 4 d'": 2 * 4 * WIDTH**2 + 5 * WIDTH,
        "P_m": HEADS * WIDTH**2,
    }
