"""One run, from a scenario to a run directory: checks, budget, simulation, measurement, training, record."""
