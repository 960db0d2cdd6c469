"""The agents' side of the shared context board: what a worker needs to read it, write it and live on it."""
