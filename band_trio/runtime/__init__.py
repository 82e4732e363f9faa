"""The runtime of an agent: rooms, turns and settlements as nested scopes, one idea per file.

In the order in which they are best read; each folder uses those below it in this list:

    run/          platform_runtime (read first) → settings, parts, start, dispatcher, health,
                  key_check, watchdog
    contacts/     desk → book (what is news), hub, words
    membership/   presence
    room/         execution (the loop) → drain, settler, journals, interrupts, chat_control,
                  unclaimed
    turn/         turn → briefing (roster, history, system_lines, room_context), preprocessing,
                  activity, turn_listener, services
    journal/      journal → entries (the table), reads, todo, control, answers, judgement, verdict
    beside them   lifecycle, hooks, adapter_port, deadlines, listing, resync, crashes, instance_lock,
                  problems: what a run gives to all of its parts

What runs inside what; each level ends before the one around it does:

    Agent.run
    └─ watch                 hears that the caller is cancelled; `whole` shields what is below
       ├─ deadlines          the one task that waits for times, until all else has ended
       └─ link               the supervisor of the socket
          └─ adapter         its `serve`; its clean-up comes after the last room
             └─ rooms
                ├─ settling  a task for each verdict that the first try did not bring through
                ├─ contacts  handles contact events one after the other
                ├─ presence  starts what is missing; reads the listing
                └─ room      one for each membership: the loop, its reports and hooks
                   └─ turn   a cancel scope and a nursery for the handler
"""
