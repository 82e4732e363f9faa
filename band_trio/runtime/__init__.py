"""The runtime of an agent: rooms, turns and settlements as nested scopes, one idea per file.

In the order in which they are best read:

    One run       platform_runtime (read first) → settings, parts, start, lifecycle, instance_lock,
                  health, problems, key_check
    Which rooms   dispatcher → presence → listing, journals
    One room      execution (the loop) → journal (entries, reads, todo, control), drain, resync, services
    One message   entries → verdict → answers → turn → briefing (roster, history, system_lines,
                  room_context) → judgement → settler
    Beside it     activity, interrupts, chat_control, turn_listener, crashes
    Application   adapter_port, hooks; deadlines and watchdog name what does not end

What runs inside what; each level ends before the one around it does:

    Agent.run
    └─ watch                 hears that the caller is cancelled; `whole` shields what is below
       ├─ deadlines          the one task that waits for times, until all else has ended
       └─ link               the supervisor of the socket
          └─ adapter         its `serve`; its clean-up comes after the last room
             └─ rooms
                ├─ settling  a task for each verdict that the first try did not bring through
                ├─ presence  starts what is missing; reads the listing
                └─ room      one for each membership: the loop, its reports and hooks
                   └─ turn   a cancel scope and a nursery for the handler
"""
