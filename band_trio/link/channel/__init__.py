"""The socket: one epoch, its topics, and the supervisor that connects again."""
