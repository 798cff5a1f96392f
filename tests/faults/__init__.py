"""Faults of the operating system: at every call that writes, and what becomes of the directories."""
