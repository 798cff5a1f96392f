"""The cohorts of a run in Flower 1.41 and later, by its Message API: strategies, an accountant, a grid for tests."""
