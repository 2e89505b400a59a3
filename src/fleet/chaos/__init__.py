"""A supervisor under stand-in agents that misbehave, and under kills: what is played, and what counts as passed."""
