"""Devices that are on and off by turns, with independent lengths."""
