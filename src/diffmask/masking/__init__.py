"""④ Acting on the decision: mask a state, and run the model again from there on."""
