"""A small convolutional network in the manner of VGG: its features are what the in-context classifier of wang2025, section 6.2, sees."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from ..errors import UserError


class ConvFeatures(nn.Module):
    """3 x 3 convolutions, ReLU and 2 x 2 pooling; the features are the last map averaged over the image, as the document's code does with VGG16.

    Batch normalisation follows each convolution (VGG16 has none; here it makes a few epochs enough).

    Args:
        n_classes: classes it is trained to name.
        channels: of the convolutions that are followed by pooling.
        d: features, the channels of the last convolution.

    Raises:
        UserError: sizes that define no network.
    """

    def __init__(self, n_classes: int, channels: tuple[int, ...] = (16, 32, 64), d: int = 512) -> None:
        super().__init__()
        if n_classes < 2 or d < 1 or min(channels, default=0) < 1:
            raise UserError(
                f"n_classes={n_classes}, channels={channels}, d={d}",
                "Take 2 classes or more, and widths of 1 or more.",
            )
        widths = (1, *channels, d)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(i, o, 3, padding=1, bias=False)
            for i, o in zip(widths, widths[1:], strict=False)  # noqa: RUF007
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(o) for o in widths[1:])
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

    def features(self, images: Tensor) -> Tensor:
        """Features ``(B, d)``, none below 0, of images ``(B, 1, S, S)`` with ink 1 on ground 0."""
        x = images
        for i, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            x = relu(norm(convolution(x)))  # (B, C, S, S)
            if i < len(self.convolutions) - 1:
                x = max_pool2d(x, 2)
        return x.mean((-2, -1))

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(B, n_classes)``."""
        return self.head(self.features(images))
