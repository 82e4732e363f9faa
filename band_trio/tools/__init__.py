"""The tools of a turn: what a model is offered, and what a call does."""
