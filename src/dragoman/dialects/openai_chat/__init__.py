"""OpenAI's Chat Completions API, as OpenAI and the many compatible servers and clients speak it."""
