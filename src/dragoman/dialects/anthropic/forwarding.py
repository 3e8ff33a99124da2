"""Rules for forwarding a stream of the Messages API."""

from dragoman.dialects.forwarding import Forwarding, split_event_lines


class AnthropicForwarding(Forwarding):
    closing_mark = b'"message_stop"'
    closing_event = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    reply_path = "message"
    reply_mark = b'"message_start"'

    def is_delta_run(self, events: bytes) -> bool:
        deltas = events.count(b"event: content_block_delta\ndata: ")
        return deltas > 0 and events.count(b"\n\n") == deltas

    def drop_deltas(self, events: bytes) -> bytes:
        split = split_event_lines(events)
        if split is None:
            return events
        kept = [name + data + b"\n" for name, data in split if name != b"event: content_block_delta\n"]
        return b"".join(kept)

    def may_answer(self, events: bytes) -> bool:
        thoughts = events.count(b'"thinking_delta"') + events.count(b'"signature_delta"')
        return thoughts != events.count(b"\n\n")


FORWARDING = AnthropicForwarding()
