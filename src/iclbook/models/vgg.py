"""VGG16 features as in the published code of wang2025: the last pooled map, averaged over the image, 512 numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ..errors import UserError

#: Mean and standard deviation of ImageNet's colours, which torchvision's weights expect.
MEAN, SD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def vgg16_features() -> Callable[[np.ndarray], np.ndarray]:
    """A function from images ``(B, 224, 224, 3)`` uint8 to features ``(B, 512)``; torchvision fetches its weights on first use.

    Raises:
        UserError: torchvision is not installed.
    """
    try:
        from torchvision.models import VGG16_Weights, vgg16
    except ImportError:
        raise UserError(
            "VGG features need torchvision, which this book does not install",
            "Install it (pip install torchvision) in the version that fits the installed torch.",
        ) from None
    network = vgg16(weights=VGG16_Weights.IMAGENET1K_V1).features.eval()
    return lambda images: extract(network, images)


@torch.no_grad()
def extract(network: torch.nn.Module, images: np.ndarray) -> np.ndarray:
    """Maps of a network, averaged over the image: ``(B, S, S, 3)`` uint8 to ``(B, channels)``."""
    x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255  # (B, 3, S, S)
    x = (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(SD)[:, None, None]
    return network(x).mean((-2, -1)).numpy()
