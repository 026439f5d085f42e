"""③ Who decides what is kept."""
