"""What this package gives that is loaded when it is asked for: each needs the extra of its SDK."""

from typing import Final

LATER: Final = {
    "AnthropicAdapter": "anthropic",
    "AnthropicConfig": "anthropic",
    "AsyncioAdapter": "bridge",
    "AsyncioAdapterConfig": "bridge",
    "AsyncioHost": "asyncio_host",
    "BridgedTool": "bridged",
    "BridgedTurn": "bridged",
    "HostCall": "asyncio_host",
    "current_turn": "bridged",
    "open_asyncio_host": "asyncio_host",
    "BaseAdapterConfig": "options",
    "EnvAdapterConfig": "options",
    "ModelAdapter": "model",
    "ModelAdapterConfig": "model",
    "ModelConfig": "options",
    "ModelLoopAdapter": "loop",
    "ModelReply": "replies",
    "OpenAIAdapter": "openai",
    "OpenAIConfig": "openai",
    "ToolRequest": "replies",
}
"""Name → module of the package that is loaded when the name is asked for."""
