"""What is measured, in functions that return the values to record (wang2025)."""
