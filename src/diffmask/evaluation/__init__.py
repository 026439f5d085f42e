"""⑨ Are the scores faithful: one file per metric."""
