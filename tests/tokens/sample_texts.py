"""Texts of the kinds that agents send, and how many tokens the real tokenizers make of them.

The counts were taken with the published tables of each tokenizer: o200k for `gpt`, Qwen 3 and DeepSeek 3 for
`open` (their mean), Gemma 3 for `gemini`; and, for both Claudes, with a public reconstruction of theirs.
"""

from pathlib import Path

from dragoman.dialects.interfaces import Tokenizer

FOLDER = Path(__file__).parent / "samples"

TRUE_COUNTS: dict[str, dict[Tokenizer, int]] = {
    "prose": {"gpt": 189, "open": 190, "gemini": 193, "claude-3": 191, "claude": 242},
    "code": {"gpt": 280, "open": 293, "gemini": 328, "claude-3": 316, "claude": 414},
    "schema": {"gpt": 186, "open": 187, "gemini": 201, "claude-3": 212, "claude": 286},
    "chinese": {"gpt": 192, "open": 153, "gemini": 167, "claude-3": 287, "claude": 286},
    "output": {"gpt": 252, "open": 274, "gemini": 316, "claude-3": 319, "claude": 380},
}

SAMPLES = {name: (FOLDER / f"{name}.txt").read_text("utf-8") for name in TRUE_COUNTS}
