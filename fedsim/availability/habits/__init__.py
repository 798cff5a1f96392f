"""Devices that live by the habits of a person: charging, network and idle, in local time."""
