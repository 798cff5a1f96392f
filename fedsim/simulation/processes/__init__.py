"""The engine of processes: one for each condition of a device, each session and each wall-clock cool-down."""
