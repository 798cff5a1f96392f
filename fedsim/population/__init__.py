"""The devices as columns: weight p_i, separation R_i, cool-down, speed, time zone and group of every client."""

from fedsim.population.feasibility import check_feasible
from fedsim.population.quantities import Population, build_population, drawn_columns, residence

__all__ = ["Population", "build_population", "check_feasible", "drawn_columns", "residence"]
