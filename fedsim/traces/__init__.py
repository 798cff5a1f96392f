"""Recorded availability as a tool: import from other forms, and fits of the models to it."""
