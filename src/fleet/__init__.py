"""Runs a fleet of coding agents on your own machines and models."""

__version__ = "0.3.0"
DISTRIBUTION = "fleet-agents"  # what package indexes call it; the import and the programs are `fleet`
