"""Section 6.3: GD language models beside Transformers, in nats a token of held-out English.

The published code's training is taken: AdamW, rate 0.001, weight decay 0.01, gradients clipped at 1. Ours: the text, width 128 in place of 512, windows of 64
tokens, 4,000 steps of 32 windows, a cosine down to a tenth.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...models.language import GDLanguage, TransformerLanguage
from ...project import check_profile
from ...tasks.text import Text
from ...training import AdamW, Cosine, FixedSet, Group, Run, Study, next_token

#: Windows that are scored at a time.
CHUNK = 128


@dataclass(frozen=True)
class OnHeldOutText:
    """Observes ``nll (n,)``: mean negative log-likelihood of a token (nats) in each of the first ``n`` held-out windows."""

    text: Text
    n: int

    def held_out(self) -> Tensor:
        """Windows ``(S + 1, n)``."""
        return self.text.windows(held_out=True)[: self.n].T.contiguous()

    def __call__(self, model: nn.Module, held_out: Tensor) -> dict[str, Tensor]:
        """``nll``."""
        each = []
        for tokens in held_out.split(CHUNK, 1):
            logits = model(tokens[:-1]).permute(1, 2, 0)  # (B, V, S)
            each.append(nn.functional.cross_entropy(logits, tokens[1:].T, reduction="none").mean(1))
        return {"nll": torch.cat(each)}


#: The models: name -> class and what makes it.
MODELS = {
    "gd": (GDLanguage, {}),
    "gd-ff": (GDLanguage, {"feed_forward": True}),
    "gd-no-p": (GDLanguage, {"mixing": False}),
    "tf": (TransformerLanguage, {}),
    "tf-no-ff": (TransformerLanguage, {"feed_forward": False}),
}


def language_studies(profile: str) -> dict[str, Study]:
    """One study a model; all see the same windows in the same order."""
    if check_profile(profile) == "paper":
        vocabulary, context, width, n_heads, seeds, rate = 1024, 64, 128, 8, 3, 1e-3
        windows, held_out, steps, batch_size = 19_000, 2048, 4000, 32
        record = (24, 1000, 2000, 3000, 4000)  # 24 is what a replay repeats
    else:
        vocabulary, context, width, n_heads, seeds, rate = 300, 16, 16, 2, 2, 0.01
        windows, held_out, steps, batch_size, record = 512, 64, 12, 8, (8, 12)
    text = Text(vocabulary, context)
    data, observe = FixedSet(text, windows, epochs=True), OnHeldOutText(text, held_out)
    sizes = {"vocabulary": vocabulary, "context": context, "width": width, "n_heads": n_heads}
    runs = tuple(Run(seed, rate=rate, stream=0) for seed in range(seeds))
    found = {}
    for name, (model, more) in MODELS.items():
        group = Group(name, model, sizes | more, runs, AdamW(clip=1.0), next_token, Cosine(), observe)
        key = f"language_{name.replace('-', '_')}"
        found[key] = Study("wang2025", key, data, (group,), steps, batch_size, record)
    return found
