"""The bridge to an agent that speaks the Agent Client Protocol: a program of its own, which nothing imports."""
