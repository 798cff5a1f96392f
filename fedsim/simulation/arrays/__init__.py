"""The vectorized engine: devices and sessions as arrays, looked at only when a round asks for them."""

from fedsim.simulation.arrays.world import vectorized_world

__all__ = ["vectorized_world"]
