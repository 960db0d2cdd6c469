"""The outside view: load, fan-out and algorithm benchmarks."""
