"""Data for problems that learn from samples: where they come from, and which client has which."""
