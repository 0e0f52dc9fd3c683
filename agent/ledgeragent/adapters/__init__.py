"""Other people's agent stacks: each module here fits the loop into one of them and needs that stack installed."""
