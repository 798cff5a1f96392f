"""The devices as columns: weight p_i, separation R_i, cool-down, speed, time zone and group of every client."""

from fedsim.population.columns import Population, build_population, drawn_columns, residence
from fedsim.population.feasibility import check_feasible

__all__ = ["Population", "build_population", "check_feasible", "drawn_columns", "residence"]
