"""A simulation as the server and the gauges see it, whichever engine keeps the devices."""

from typing import TypeAlias

from fedsim.simulation.arrays.sessions import ArrayRound
from fedsim.simulation.arrays.world import ArrayWorld
from fedsim.simulation.processes.sessions import ProcessRound
from fedsim.simulation.processes.world import ProcessWorld

Federation: TypeAlias = ProcessWorld | ArrayWorld
"""The state of one of the engines; both have the same public methods and attributes."""
OpenRound: TypeAlias = ProcessRound | ArrayRound
"""The sessions of a round whose reports still count."""
