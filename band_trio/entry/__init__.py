"""What stands between an agent and the shell: `band_trio.run`, shared with `band-trio run`.

Signals, the log, who the agent is, the last line and the exit code.
"""
