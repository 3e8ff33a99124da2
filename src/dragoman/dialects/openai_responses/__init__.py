"""The OpenAI Responses API, and the servers and clients that speak it."""
