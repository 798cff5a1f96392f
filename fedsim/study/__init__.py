"""Studies: expectations, drift, replay, sweeps."""
