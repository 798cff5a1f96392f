"""Sweeps over what-ifs: their points, plan, store, execution and comparison."""
