"""Which rooms are served: what is pushed, and the listing, against what runs."""
