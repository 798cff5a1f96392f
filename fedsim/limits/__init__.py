"""Limits that a scenario states: their grammar, the names they may use, and the verdict on a run."""
