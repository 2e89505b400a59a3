"""Runs a fleet of coding agents on your own machines and models."""

__version__ = "0.3.0"
