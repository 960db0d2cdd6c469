"""The one door: every surface (HTTP, the stream, MCP) calls the service, and the service alone touches store and hub."""
