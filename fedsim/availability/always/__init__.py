"""Devices that are available at every instant."""
