"""Stand-ins: real programs and servers with scripted minds."""
