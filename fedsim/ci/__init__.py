"""Scenarios as tests: replay, lock files, drift, and reports for CI services."""
