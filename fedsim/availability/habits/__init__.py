"""Devices of persons with daily habits: charging, network and idle, in local time.

`model` is the availability model, and `batch` answers for many devices at once. Nothing is simulated ahead: `kernel`
draws the charging sessions and outings of the days near an instant, and the screen uses and network failures of the
five-minute slots near it, from their keys. It reads tables: `persons` has what stays the same for a person, and `days`
what all persons have in common on a local day or in a slot.
"""
