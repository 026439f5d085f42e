"""① The model being explained: where its states can be read and replaced."""
