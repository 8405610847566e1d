"""What is trained (agarwal2025)."""
