"""The state behind the Responses API: what is kept, continued, run in the background, and said over sockets.

Upstreams never see any of it: whatever they speak, they get the whole conversation and answer one turn.
"""
