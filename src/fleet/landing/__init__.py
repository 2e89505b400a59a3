"""Results are brought onto a branch, one on top of the other: which may, in which order, and what was landed."""
