"""⑦ Using a fitted probe: explain an input, verify the explanation, repair it where it breaks the margin."""
