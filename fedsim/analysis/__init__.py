"""What the log says: participation per client, and metrics with names."""

from fedsim.analysis.metrics import METRICS, describe, listed, measure
from fedsim.analysis.metrics.metric import Measurement, Metric
from fedsim.analysis.metrics.view import LogView, Setting
from fedsim.analysis.participation import clients_table

__all__ = [
    "METRICS",
    "LogView",
    "Measurement",
    "Metric",
    "Setting",
    "clients_table",
    "describe",
    "listed",
    "measure",
]
