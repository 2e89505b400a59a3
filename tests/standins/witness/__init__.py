"""Agents that leave a trace, and a judge who reads only traces."""
