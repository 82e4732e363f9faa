"""What the platform keeps for agents beside rooms: pure state, time and ids come from outside."""
