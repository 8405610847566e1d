"""What is trained (nagy2026)."""
