"""② The data, and which prediction must be preserved."""
