"""Below HTTP and the socket: the dialler with its proxies, TCP, and told waits."""
