"""Secrets are masked before anything is written, in whole texts and across the deltas of a stream."""

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.records import redaction
from dragoman.records.redaction import redact_content, redact_stream, redact_texts

SECRETS = [
    "-".join(("sk", "ant", "api03", "abcdefghijklmnop")),
    "ghp_abcdefghijklmnopqrstuvwxyz123456",
    "AKIAIOSFODNN7EXAMPLE",
    "sk-" + "a1" * 20,
    "dgm_" + "x" * 43,
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nq83vASNFZ4k=\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("secret", SECRETS)
@given(st.text(max_size=30), st.text(max_size=30))
def test_a_secret_is_masked_in_json_of_any_depth(secret: str, before: str, after: str) -> None:
    value = {"content": [{"text": f"{before} {secret} {after}"}]}
    nested = {"arguments": msgspec.json.encode(value).decode()}
    for each in (value, nested):
        data = msgspec.json.encode(each)
        redacted = redact_content(data)
        assert len(redacted) == len(data)
        for line in secret.splitlines():
            assert line.encode() not in redacted
        assert msgspec.json.decode(redacted).keys() == each.keys()


@pytest.mark.parametrize("secret", SECRETS[:5])
@given(st.lists(st.integers(1, 60), max_size=6))
def test_a_secret_is_masked_wherever_a_stream_cuts_it(secret: str, places: list[int]) -> None:
    text = f"the key is {secret} as you see"
    cuts = sorted({0, *(place for place in places if place < len(text)), len(text)})
    parts = [text[low:high] for low, high in pairwise(cuts)]
    stream = b"".join(
        b"event: content_block_delta\ndata: "
        + msgspec.json.encode({"index": 0, "delta": {"type": "text_delta", "text": part}})
        + b"\n\n"
        for part in parts
    )
    redacted = redact_stream(stream).expand()
    assert len(redacted) == len(stream)
    frames = [msgspec.json.decode(line[6:]) for line in redacted.splitlines() if line.startswith(b"data:")]
    joined = "".join(frame["delta"]["text"] for frame in frames)
    assert secret not in joined
    assert joined.startswith("the key is [redacted]")
    assert joined.endswith(" as you see")


@pytest.mark.parametrize(
    ("before", "secret"),
    [
        ("AWS_SECRET_ACCESS_KEY=", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE9EY"),
        ("aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE8EY"),
        ('curl -H "Authorization: Basic ', "dXNlcjpwYXNzd29yZDEyMw=="),
        ('SECRET_KEY = "', "insecure-9x8y7z6w5v4u3t2s"),
        ("ACCESS_KEY=", "abcd1234efgh9999"),
        ('private_key: "', "abcd1234efgh5678"),
        ("passphrase: ", "corr3ct-h0rse-battery"),
        ("DB_PASS=", "s3cretpassw0rd"),
        ("", "sk-or-v1-" + "0a" * 32),
        ("", "gsk_" + "a1B2" * 13),
        ("", "hf_" + "AbCdEfGhIj" * 4),
        ("", "xai-" + "a1B2" * 20),
        ("", "nvapi-" + "a1B-" * 16),
        ("", "npm_" + "a1B2" * 9),
    ],
)
def test_known_names_and_keys_of_vendors_are_masked(before: str, secret: str) -> None:
    data = msgspec.json.encode({"text": f"{before}{secret}"})
    assert secret.encode() not in redact_content(data)
    # A model that repeats it, one character at a time.
    stream = b"".join(
        b"data: " + msgspec.json.encode({"delta": {"text": each}}) + b"\n\n" for each in before + secret
    )
    parts = [msgspec.json.decode(line[6:]) for line in redact_texts(stream).splitlines() if line]
    assert secret not in "".join(part["delta"]["text"] for part in parts)


@pytest.mark.parametrize("secret", SECRETS[:5])
@pytest.mark.parametrize("words", [1, 60])
def test_a_secret_is_masked_if_it_begins_in_an_event_of_another_form(secret: str, words: int) -> None:
    """The first event of some servers also has the role, so it belongs to no run of texts."""
    half = len(secret) // 2
    deltas = [{"role": "assistant", "content": secret[:half]}, {"content": secret[half:]}]
    deltas += [{"content": f" word {number}"} for number in range(words)]
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    redacted = redact_stream(b"".join(b"data: " + msgspec.json.encode(each) + b"\n\n" for each in events))
    lines = [msgspec.json.decode(line[6:]) for line in redacted.expand().splitlines() if line]
    joined = "".join(line["choices"][0]["delta"]["content"] for line in lines)
    assert joined.startswith("[redacted]")
    assert secret[half:] not in joined
    assert joined.endswith(f" word {words - 1}")


EVENTS = [
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "{}"}},
    {"id": "1", "choices": [{"index": 0, "delta": {"content": "{}"}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]},
    {"type": "response.output_text.delta", "delta": "{}", "obfuscation": "x"},
    {"note": "{}", "text": "a"},
]
TEXTS = st.one_of(
    st.sampled_from(
        [*SECRETS[:5], "api_key", '": "', "= ", "abc123def456", "secret-of-config", "\\", '"', " "]
    ),
    st.text(max_size=4),
)


@given(st.lists(st.tuples(st.sampled_from(EVENTS), TEXTS, st.integers(0, 20)), max_size=12), st.booleans())
def test_the_fast_search_of_a_stream_finds_what_the_slow_one_finds(
    steps: list[tuple[dict[str, object], str, int]], is_spaced: bool
) -> None:
    """Each step is a text that is cut in two, in events of one kind. Other kinds may come between."""
    stream = b""
    for event, text, place in steps:
        for part in (text[:place], text[place:]):
            inner = json.dumps(json.dumps(part)[1:-1] if "tool_calls" in str(event) else part)[1:-1]
            data = json.dumps(event, separators=None if is_spaced else (",", ":"))
            stream += b"data: " + data.replace('"{}"', f'"{inner}"').encode() + b"\n\n"
    secrets = [b"secret-of-config"]
    assert redact_stream(stream, secrets).expand() == redact_texts(stream, secrets)


@pytest.mark.parametrize(
    "text",
    [
        "toolu_01AbCdEfGhIjKlMnOpQrStUv",
        "call_1234567890abcdefghijklmn",
        "0f3b5c1d9a8e7f6b5c4d3e2f1a0b9c8d7e6f5a4b",
        "def check(token: str) -> bool",
        "password = getpass()",
        "https://example.org/a:b@c",
        "/srv/projects/some-long-project-name-2024/src",
    ],
)
def test_ids_hashes_and_code_stay_as_they_are(text: str) -> None:
    assert redact_content(text.encode()) == text.encode()


def test_values_with_names_and_known_values_are_masked() -> None:
    data = b'{"env":"API_KEY=abc123def456 PASSWORD: \\"hunter22hunter\\"","x":"provider-key-1"}'
    redacted = redact_content(data, [b"provider-key-1"])
    assert len(redacted) == len(data)
    for secret in (b"abc123def456", b"hunter22hunter", b"provider-key-1"):
        assert secret not in redacted
    assert b"API_KEY=[redacted]" in redacted


PIECES = st.sampled_from(
    [
        *(b"password", b"api_key", b"token", b"_pass", b"SECRET_ACCESS_KEY", b"Authorization", b"secret"),
        *(b"=", b": ", b'":"', b'\\":\\"', b"Bearer ", b"basic ", b" ", b"\n", b"_", b"-", b"/"),
        *(b"abcdefgh", b"a1b2c3d4e5", b"1234567890", b"abc", b"7", b"x" * 210),
    ]
)


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_values_after_names_are_found_at_every_place(data: bytes) -> None:
    expected = redaction._NAMED_VALUE.sub(
        lambda found: found[0][: -len(found[1])] + redaction._build_mask(len(found[1])), data
    )
    assert redaction._mask_named_values(data) == expected


@pytest.mark.parametrize(
    ("unit", "end"),
    [
        (b"token=", b""),
        (b"token=1", b""),
        (b"eyJ-", b"x" * 12 + b".eyJ"),
        (b"sk-ant-", b""),
        (b"://a:", b"@"),
    ],
)
def test_a_megabyte_of_hostile_text_is_done_with(unit: bytes, end: bytes) -> None:
    data = unit * (1_000_000 // len(unit)) + end
    assert len(redact_content(data)) == len(data)
