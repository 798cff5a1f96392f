"""The cohorts of a schedule, round by round, for a training loop of one's own."""

from fedsim.bridges.schedules import Round, Schedule, read_schedule

__all__ = ["Round", "Schedule", "read_schedule"]
