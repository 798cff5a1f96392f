"""A schedule as a batch selection strategy of jax-privacy."""

from fedsim.bridges.jax_privacy import ScheduledBatches

__all__ = ["ScheduledBatches"]
