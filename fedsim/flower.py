"""The cohorts of a run in Flower: needs the extra ``flower``."""

from fedsim.bridges.flower.accountant import ParticipationAccountant
from fedsim.bridges.flower.in_process import InProcessGrid
from fedsim.bridges.flower.of_scenario import Live
from fedsim.bridges.flower.of_schedule import PARTITION, Replay, tell_partition
from fedsim.bridges.flower.weighting import STEP_SCALE, FedAU
from fedsim.bridges.flower.weighting import DebiasedFedAvgStrategy as DebiasedFedAvg
from fedsim.bridges.schedules import Round, Schedule, read_schedule

__all__ = [
    "PARTITION",
    "STEP_SCALE",
    "DebiasedFedAvg",
    "FedAU",
    "InProcessGrid",
    "Live",
    "ParticipationAccountant",
    "Replay",
    "Round",
    "Schedule",
    "read_schedule",
    "tell_partition",
]
