"""What is measured, in functions that return the values to record (he2025)."""
