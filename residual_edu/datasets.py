"""Real data that needs no network: it ships inside scikit-learn, and inside Python itself."""

from pathlib import PurePath
from typing import NamedTuple

import torch
from torch import Tensor

from residual_edu.errors import check_below, check_size


class Digits(NamedTuple):
    """Handwritten digits, split for training and testing.

    Images are ``(n, 8, 8)``, float32 in [0, 1]; labels are ``(n,)``, 0 to 9. All on the CPU.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def digits(seed: int = 0, test: int = 360) -> Digits:
    """Return scikit-learn's 1,797 digits, shuffled by ``seed``, the last ``test`` of them kept for testing.

    Raises:
        InvalidInput: if ``test`` is below 1 or leaves none to train on.
    """
    from sklearn.datasets import load_digits

    pixels, classes = load_digits(return_X_y=True)
    check_size("test", test)
    check_below("test", test, len(classes))
    order = torch.randperm(len(classes), generator=torch.Generator().manual_seed(seed))
    images = torch.tensor(pixels, dtype=torch.float32)[order].view(-1, 8, 8) / 16
    labels = torch.tensor(classes)[order]
    return Digits(images[:-test], labels[:-test], images[-test:], labels[-test:])


def wine() -> tuple[Tensor, list[str]]:
    """Return the 178 wines of scikit-learn, ``(178, 13)`` float32 in their own units, and the 13 names."""
    from sklearn.datasets import load_wine

    table = load_wine()
    return torch.tensor(table.data, dtype=torch.float32), list(table.feature_names)


def photos() -> dict[str, Tensor]:
    """Return scikit-learn's two photographs by name, ``china`` and ``flower``.

    Each is ``(427, 640, 3)``, float32 in [0, 1], red, green and blue last. On the CPU.
    """
    from sklearn.datasets import load_sample_images

    pictures = load_sample_images()
    names = [PurePath(name).stem for name in pictures.filenames]
    return {name: torch.tensor(image).float() / 255 for name, image in zip(names, pictures.images, strict=True)}


def python_documentation() -> str:
    """Return the text of Python's own ``help()`` on the language, 450,000 characters or more, as its version has it."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))
