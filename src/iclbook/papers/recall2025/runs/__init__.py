"""What is trained (recall2025)."""
