# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[anthropic]"]
# ///
"""An agent on Claude. Needs ANTHROPIC_API_KEY; runs until Ctrl-C.

The model is told how a room works and answers with the room's tools: it sends messages, looks up
and brings in others, or declines to say anything.
"""

# expects: in the room, "…" as the answer to "@your-name/claude hello"
import band_trio
from band_trio import Capability
from band_trio.adapters import AnthropicAdapter, AnthropicConfig

adapter = AnthropicAdapter(
    AnthropicConfig(
        model="claude-sonnet-5-5",
        custom_section="You help with questions about our library. Be brief.",
    ),
    capabilities=Capability.MEMORY | Capability.TASKS,  # tools beside those of the chat
)

if __name__ == "__main__":
    # Reads agent_id and api_key of the entry "claude" in agent_config.yaml.
    band_trio.run(adapter, name="claude")
