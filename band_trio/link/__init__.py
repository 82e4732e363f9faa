"""The connection to the platform: REST and one WebSocket."""
