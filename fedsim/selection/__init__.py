"""The laws by which the server chooses a cohort among the eligible clients, one file for each family."""

from fedsim.selection.law import Candidates, Law, Request
from fedsim.selection.laws import selection_law

__all__ = ["Candidates", "Law", "Request", "selection_law"]
