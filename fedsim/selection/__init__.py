"""The laws by which the server selects a cohort among the eligible clients.

To add one, write the class and name it in `fedsim.selection.laws`; the arguments of its constructor are its options.
"""

from fedsim.selection.law import Candidates, Eligibility, Feedback, Informed, Law, Remembering, Request
from fedsim.selection.laws import LAWS, check_law, needs_feedback, selection_law, theory_of

__all__ = [
    "LAWS",
    "Candidates",
    "Eligibility",
    "Feedback",
    "Informed",
    "Law",
    "Remembering",
    "Request",
    "check_law",
    "needs_feedback",
    "selection_law",
    "theory_of",
]
