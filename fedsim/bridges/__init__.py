"""Runs for other tools: what they read, written from a run directory."""
