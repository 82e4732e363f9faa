# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[openai]"]
# ///
"""An agent on OpenAI's chat completions, or on any server that speaks the same.

Run it as a program, or with the command line:

    OPENAI_API_KEY=… python 11_openai.py
    OPENAI_API_KEY=… band-trio run 11_openai:helper
    OPENAI_BASE_URL=http://127.0.0.1:11434/v1 MODEL=qwen3 OPENAI_API_KEY=none band-trio run …

Both read BAND_AGENT_ID and BAND_API_KEY, or agent_config.yaml.
"""

# expects: in the room, "…" as the answer to "@your-name/helper how many are left?"
import os

import band_trio
from band_trio.adapters import OpenAIAdapter, OpenAIConfig


async def stock(item: str) -> dict:  # noqa: ASYNC124 - a real one would ask a database
    """Tell how many pieces of an item are left."""
    return {"item": item, "left": 3}


helper = OpenAIAdapter(
    OpenAIConfig(
        model=os.environ.get("MODEL", "gpt-5.2"),
        max_tool_rounds=8,
        relay_final_text=True,  # smaller models forget to call the tool that sends
    ),
    additional_tools=[stock],
    emit="usage",  # tell the room about tokens, but not about each tool call
)

if __name__ == "__main__":
    band_trio.run(helper)
