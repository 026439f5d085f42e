"""What things cost, as ratios to the plain forward pass, all taken side by side in one run."""
