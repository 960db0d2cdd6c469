"""The stream: a websocket on the same port as HTTP, driven without a task or a queue for each subscriber."""
