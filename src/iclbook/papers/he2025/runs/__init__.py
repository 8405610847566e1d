"""What is trained (he2025)."""
