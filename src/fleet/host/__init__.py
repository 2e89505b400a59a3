"""The hands: the only floor that touches files, processes and the network."""
