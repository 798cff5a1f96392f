"""A ResNet of eight layers for images of 3 x 32 x 32 pixels, with group normalisation in place of batch normalisation.

He, Zhang, Ren and Sun, *Deep Residual Learning for Image Recognition*, CVPR 2016, with one block a stage; Wu and He,
*Group Normalization*, ECCV 2018: batch statistics would tie a client's gradient to the rest of its batch.
"""

from typing import Any

from torch import nn
from torch.nn.functional import relu


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.GroupNorm(4, outer) for _ in range(2)])
        self.shortcut = nn.Conv2d(inner, outer, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, images: Any) -> Any:
        """Return the images of the next stage."""
        found = relu(self.norms[0](self.first(images)))
        return relu(self.norms[1](self.second(found)) + self.shortcut(images))


class ResNet8(nn.Module):
    """A convolution, three blocks of `width`, 2 `width` and 4 `width` channels, and a linear layer."""

    def __init__(self, labels: int = 10, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.blocks = nn.Sequential(Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2))
        self.last = nn.Linear(4 * width, labels)

    def forward(self, images: Any) -> Any:
        """Return a score for each label."""
        return self.last(self.blocks(relu(self.first(images))).mean(dim=(2, 3)))
