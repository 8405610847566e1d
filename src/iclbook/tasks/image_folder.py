"""Features of a folder of images, one subfolder for each class: how ImageNet lies on disk (``n01440764/*.JPEG``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from ..errors import UserError

#: What counts as an image.
SUFFIXES = frozenset({".jpeg", ".jpg", ".png", ".bmp", ".webp"})
#: Images that the extractor sees at once.
BATCH = 32


def folder_features(
    root: Path | str,
    extractor: Callable[[np.ndarray], np.ndarray],
    per_class: int = 50,
    side: int = 224,
    n_classes: int | None = None,
) -> tuple[np.ndarray, list[str]]:
    """Features of the first ``per_class`` images of each class, in the order of their names.

    Args:
        root: holds one folder for each class; the paper uses ImageNet's training part.
        extractor: images ``(B, side, side, 3)`` uint8, RGB, to features ``(B, d)``; :func:`iclbook.models.vgg.vgg16_features` makes one.
        per_class: images of each class.
        side: images are stretched to this size, as the published code does.
        n_classes: use the first so many classes only.

    Returns:
        Features ``(classes, per_class, d)`` float32 and the names of the classes.

    Raises:
        UserError: no such folder, no classes in it, a class with too few images, an unreadable image.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserError(
            f"there is no folder {root}", "Give the folder that holds one folder of images for each class."
        )
    folders = sorted(path for path in root.iterdir() if path.is_dir())[:n_classes]
    if not folders:
        raise UserError(
            f"{root} holds no folders", "Give the folder that holds one folder of images for each class."
        )
    features = []
    for folder in folders:
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)[:per_class]
        if len(files) < per_class:
            raise UserError(
                f"{folder} holds {len(files)} images, {per_class} are needed",
                "Add images or lower per_class.",
            )
        parts = [files[i : i + BATCH] for i in range(0, len(files), BATCH)]
        features.append(np.concatenate([extractor(_read(part, side)) for part in parts]).astype(np.float32))
    return np.stack(features), [folder.name for folder in folders]


def _read(files: list[Path], side: int) -> np.ndarray:
    images = np.empty((len(files), side, side, 3), np.uint8)
    for i, file in enumerate(files):
        try:
            with Image.open(file) as image:
                images[i] = np.asarray(image.convert("RGB").resize((side, side), Image.Resampling.NEAREST))
        except (OSError, UnidentifiedImageError) as error:
            raise UserError(f"cannot read the image {file}", "Replace or remove that file.") from error
    return images
