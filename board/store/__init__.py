"""The log on disk: one contract (`contract`), several stores behind it, one conformance suite for all."""
