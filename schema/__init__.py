"""What two programs must agree on: notes, events, codes, limits, the codec, JSON Schemas and SQL migrations."""
