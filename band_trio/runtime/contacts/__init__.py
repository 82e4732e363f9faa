"""Contact events: what is known of contacts, and who handles what happens to them."""
