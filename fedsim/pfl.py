"""A schedule as a user sampler of pfl-research."""

from fedsim.bridges.pfl import ScheduledUsers

__all__ = ["ScheduledUsers"]
