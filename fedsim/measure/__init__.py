"""What the log says: participation per client, and metrics with names."""
