"""A small convolutional network in the manner of VGG: its features are what the in-context classifier of wang2025, section 6.2, sees."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, max_pool2d, relu

Statistics = list[tuple[Tensor, Tensor]]


class ConvFeatures(nn.Module):
    """3 x 3 convolutions, ReLU and 2 x 2 pooling; the features are the last map averaged over the image, as the paper's code does with VGG16.

    Batch normalisation follows each convolution (VGG16 has none; here it makes a few epochs enough). It uses the statistics of the batch: nothing runs
    along beside the parameters. Those of a fixed set of images, taken once at the end, make the features of an image independent of the others.

    Args:
        n_classes: classes it is trained to name.
        channels: of the convolutions that are followed by pooling.
        d: features, the channels of the last convolution.
    """

    def __init__(self, n_classes: int, channels: tuple[int, ...] = (16, 32, 64), d: int = 512) -> None:
        super().__init__()
        widths = (1, *channels, d)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(i, o, 3, padding=1, bias=False)
            for i, o in zip(widths, widths[1:], strict=False)  # noqa: RUF007
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(o, track_running_stats=False) for o in widths[1:])
        self.head = nn.Linear(d, n_classes)

    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """He initialisation of the convolutions, N(0, 1/d) head, fresh normalisation."""
        with torch.no_grad():
            for convolution, norm in zip(self.convolutions, self.norms, strict=True):
                fan = convolution.in_channels * 9
                convolution.weight.normal_(0.0, scale * math.sqrt(2 / fan), generator=generator)
                norm.reset_parameters()
            self.head.weight.normal_(0.0, scale / math.sqrt(self.head.in_features), generator=generator)
            self.head.bias.zero_()

    def circuits(self) -> dict[str, Tensor]:
        """``norms`` ``(layers,)``, the length of each convolution's weights."""
        return {"norms": torch.stack([c.weight.norm() for c in self.convolutions])}

    @torch.no_grad()
    def statistics(self, images: Tensor) -> Statistics:
        """Mean and variance ``(C,)`` of each layer's convolution on images ``(B, 1, S, S)``, each layer's input normalised by them."""
        found: Statistics = []
        self.features(images, None, found)
        return found

    def features(self, images: Tensor, statistics: Statistics | None = None, taken: Statistics | None = None) -> Tensor:
        """Features ``(B, d)``, none below 0, of images ``(B, 1, S, S)`` with ink 1 on ground 0, normalised by these statistics or by those of the batch,
        which are appended to ``taken``."""
        x = images
        for i, convolution in enumerate(self.convolutions):
            x = convolution(x)
            if taken is not None:
                taken.append((x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)))
            norm = self.norms[i]
            x = norm(x) if statistics is None else batch_norm(x, *statistics[i], norm.weight, norm.bias, eps=norm.eps)
            x = relu(x)  # (B, C, S, S)
            if i < len(self.convolutions) - 1:
                x = max_pool2d(x, 2)
        return x.mean((-2, -1))

    def forward(self, images: Tensor, query: Tensor | None = None) -> Tensor:
        """Logits ``(n_classes, B)`` of images ``(S, S, B)``; there is nothing to ask beside."""
        return self.head(self.features(images.movedim(-1, 0)[:, None])).T
