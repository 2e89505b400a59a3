"""The hall: one function for each thing that a door can ask for; the only place that picks adapters."""
