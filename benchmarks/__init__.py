"""Ratios against the plain forward pass and against rivals, all taken side by side in one run."""
