"""Attempts that people begin themselves, one or many at once, each on a branch and in a terminal of its own."""
