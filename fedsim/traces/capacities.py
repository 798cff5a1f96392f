"""FedScale's capacities of devices as speeds of sessions.

They are a pickle of ``{id: {"computation": ..., "communication": ...}}``: how many milliseconds a sample takes, and how
many kilobits go through in a second. A session of s samples on a model of b kilobits takes
3 s computation / 1000 + 2 b / communication seconds: training costs three times as much as inference, and the model
goes both ways (Lai et al., *FedScale*, ICML 2022, and its simulator). A device's speed is the median of these times
over its own, so that a session as long as the median has speed 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.availability.trace.faults import TraceError
from fedsim.common.arrays import Floats
from fedsim.traces.pickle_form import plain_pickle

_TRAINING = 3.0  # how much more a sample costs in training than in inference
_SHAPE = 'capacities are a pickle of {id: {"computation": ms a sample, "communication": kbit/s}}'


@dataclass(frozen=True)
class Capacities:
    """How fast devices are.

    Attributes
    ----------
    names
        (n,) what the file calls them, in its order.
    seconds
        (n,) how long a session takes.
    left_out
        Devices with a capacity that is not above 0 and finite.
    """

    names: tuple[str, ...]
    seconds: Floats
    left_out: int

    @property
    def median_s(self) -> float:
        """How long the session of a device of speed 1 takes."""
        return float(np.median(self.seconds))

    @property
    def speed(self) -> Floats:
        """(n,) how fast each is."""
        return self.median_s / self.seconds


def read_capacities(source: str, data: bytes, samples: float, megabytes: float) -> Capacities:
    """Read capacities, and say how long a session takes on each device.

    Parameters
    ----------
    source, data
        What the file is called, and what it holds.
    samples
        Samples that a session trains on, over all local steps.
    megabytes
        Size of the model, which is downloaded and uploaded; 10^6 bytes.

    Raises
    ------
    TraceError
        If it holds anything but numbers, text, lists and dictionaries, or has another shape.
    """
    found = plain_pickle(source, data)
    if not isinstance(found, dict) or not found:
        raise TraceError(_SHAPE, source)
    names, columns = [], []
    for name, device in found.items():
        values: list[Any] = [None]
        if isinstance(device, dict):
            values = [device.get(key) for key in ("computation", "communication")]
        if not isinstance(name, str | int) or not all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in values
        ):
            raise TraceError(f"device {str(name)[:40]!r} has no two numbers; {_SHAPE}", source)
        names.append(str(name))
        columns.append([float(value) if abs(value) < 1e300 else np.inf for value in values])
    computation, communication = np.array(columns).T
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = _TRAINING * samples * computation / 1e3 + 2 * 8e3 * megabytes / communication
    good = np.isfinite(seconds) & (seconds > 0) & (computation > 0) & (communication > 0)
    if not good.any():
        raise TraceError(f"no device has capacities above 0; {_SHAPE}", source)
    kept = tuple(name for name, keep in zip(names, good.tolist(), strict=True) if keep)
    return Capacities(kept, seconds[good], int((~good).sum()))
