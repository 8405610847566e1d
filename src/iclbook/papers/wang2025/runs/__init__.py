"""What is trained (wang2025)."""
