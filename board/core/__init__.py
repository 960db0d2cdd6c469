"""The pure core: no I/O, no clock, nothing async. Time and ids arrive as arguments."""
