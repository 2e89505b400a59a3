"""Agent programs with scripted minds, and the scratch home in which they are started."""
