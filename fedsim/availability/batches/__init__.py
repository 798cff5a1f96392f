"""The availability of many devices at once: what the vectorized engine asks, one file for each kind."""

from fedsim.availability.batches.base import Batch, Spells
from fedsim.availability.batches.crowd import Crowd, crowd

__all__ = ["Batch", "Crowd", "Spells", "crowd"]
