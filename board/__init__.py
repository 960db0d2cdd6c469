"""The shared context board: one durable, ordered log of what a team of agents knows, and the server for it."""
