"""The event-driven simulation: devices, sessions and the server's round loop on one SimPy clock."""

from fedsim.simulation.engine import Enough, Progress, simulate_into, simulate_log, stepped, transitions_table
from fedsim.simulation.gate import Closed, Learner

__all__ = ["Closed", "Enough", "Learner", "Progress", "simulate_into", "simulate_log", "stepped", "transitions_table"]
