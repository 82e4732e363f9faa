"""State machines that drive a real agent on an in-memory platform that breaks in every way."""
