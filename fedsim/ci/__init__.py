"""Scenarios as tests: replay, lock files, drift, and how CI systems are told."""
