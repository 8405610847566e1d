"""Parameter counts of the language models of section 6.3, and the parts that the printed 8K and 6M count."""

from typing import Any

import torch

from ...models.language import GDLanguage, LanguageModel, TransformerLanguage

#: Section 6.3: vocabulary, positions (the GD model has one more), embedding dimension; heads.
PUBLISHED, PAPER_HEADS = (50_257, 256, 512), 8


def parameters() -> dict[str, Any]:
    """Section 6.3's counts, in modules without memory: GD, GD with feed-forward, the Transformer with heads of full width and with standard ones."""
    with torch.device("meta"):
        gd, gd_ff = (GDLanguage(*PUBLISHED, n_heads=PAPER_HEADS, feed_forward=ff) for ff in (False, True))
        tf, split = (TransformerLanguage(*PUBLISHED, n_heads=PAPER_HEADS, split=split) for split in (False, True))

    def part(model: LanguageModel, *names: str) -> int:
        return sum(getattr(model, name).numel() for name in names)

    diagonals, mixing = part(gd, "lam"), part(gd, "mix")
    qkv, text = ("W_Q", "W_K", "W_V"), diagonals + gd.n_heads + mixing
    inner, standard = (model.count() - model.embedding_count() for model in (gd_ff, split))
    return {
        "params/gd": diagonals,
        "params/gd_counted_twice": 2 * diagonals,
        "params/gd_scalar": diagonals + gd.n_heads,
        "params/gd_text_millions": text / 1e6,
        "params/tf_millions": part(tf, *qkv) / 1e6,
        "params/tf_with_P_millions": part(tf, *qkv, "W_O") / 1e6,
        "params/tf_narrow_millions": part(split, *qkv, "W_O") / 1e6,
        "params/gd_with_P_ratio": (diagonals + mixing) / diagonals,
        "params/gd_total_millions": gd.count() / 1e6,
        "params/tf_total_millions": tf.count() / 1e6,
        "params/total_ratio": gd.count() / tf.count(),
        "params/gd_ff_millions": inner / 1e6,
        "params/standard_millions": standard / 1e6,
        "params/standard_ratio": inner / standard,
        "params/attention_ratio": text / part(split, *qkv, "W_O"),
    }
