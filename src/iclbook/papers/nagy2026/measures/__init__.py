"""What is measured, in functions that return the values to record (nagy2026)."""
