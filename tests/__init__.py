"""Tests, and the demo that plays a real team's record."""
