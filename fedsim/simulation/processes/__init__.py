"""The engine of processes: one for every device, session and cool-down."""
