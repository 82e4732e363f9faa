# /// script
# requires-python = ">=3.11"
# dependencies = ["band-trio[pydantic-ai]"]
# ///
"""An agent on any model that pydantic-ai knows, and what to do when its provider fails.

MODEL names it: `anthropic:claude-sonnet-5-5`, if it is not set, or `openai-chat:gpt-5.2`; the key
comes from the provider's usual variable. Runs until Ctrl-C.
"""

# expects: in the room, "…" as the answer to "@your-name/any hello"
import os

import trio

import band_trio
from band_trio.adapters import ModelAdapter, ModelAdapterConfig


class PatientAdapter(ModelAdapter):
    """Asks once more, after a while, when the provider does not answer."""

    async def ask(self, system, messages, tools):
        try:
            return await super().ask(system, messages, tools)
        except Exception as exc:  # noqa: BLE001 - each provider has errors of its own
            print(f"the provider failed: {type(exc).__name__}")
        await trio.sleep(float(os.environ.get("PATIENCE", "5")))
        return await super().ask(system, messages, tools)


model = os.environ.get("MODEL", "anthropic:claude-sonnet-5-5")
config = ModelAdapterConfig(model=model, max_retries=0, settings={"temperature": 0.2})
adapter = PatientAdapter(config)

if __name__ == "__main__":
    # Reads agent_id and api_key of the entry "any" in agent_config.yaml.
    band_trio.run(adapter, name="any")
