"""The parts of the keeper's own program: they import little of the standard library, and of fleet only each other."""
