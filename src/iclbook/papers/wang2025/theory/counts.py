"""Parameters of the language models at the sizes of section 6.3 (wang2025), counted in the modules without giving them memory."""

from __future__ import annotations

import torch

from ....models.gd_language import GDLanguage
from ....models.language import LanguageModel
from ....models.transformer_language import TransformerLanguage

#: Section 6.3: embedding dimension, heads, vocabulary, positions (the GD model has one more).
WIDTH, HEADS, VOCABULARY, CONTEXT = 512, 8, 50_257, 256


def models() -> dict[str, LanguageModel]:
    """The models of table 3, the Transformer with heads of full width (published code) and with standard ones (Radford et al. 2019)."""
    sizes = (VOCABULARY, CONTEXT, WIDTH)
    with torch.device("meta"):
        return {
            "gd": GDLanguage(*sizes, n_heads=HEADS),
            "gd-ff": GDLanguage(*sizes, n_heads=HEADS, feed_forward=True),
            "tf": TransformerLanguage(*sizes, n_heads=HEADS, split=False),
            "tf-split": TransformerLanguage(*sizes, n_heads=HEADS, split=True),
        }


def part(model: LanguageModel, *names: str) -> int:
    """Numbers in the parameters of these names."""
    return sum(getattr(model, name).numel() for name in names)


def inner(model: LanguageModel) -> int:
    """All but the embeddings of tokens and positions."""
    return model.count() - model.embedding_count()
