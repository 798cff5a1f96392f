"""Makes the pages of `reports/`, and runs the studies whose numbers the documentation quotes."""
