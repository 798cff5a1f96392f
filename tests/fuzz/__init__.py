"""Hostile and damaged files for every command that reads one."""
