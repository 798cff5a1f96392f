"""The event-driven simulation: devices, sessions and the server's round loop on one SimPy clock."""

from fedsim.simulation.engine import Enough, Progress, simulate_into, simulate_log, transitions_table

__all__ = ["Enough", "Progress", "simulate_into", "simulate_log", "transitions_table"]
