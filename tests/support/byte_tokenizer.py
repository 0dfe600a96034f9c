"""A tokenizer file whose ids are bytes."""
import json

END = 256


def write_byte_tokenizer(folder):
    """A tokenizer.json whose ids are bytes, in GPT-2's alphabet, and one that ends a text."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in shown}
    letters |= {byte: chr(256 + i) for i, byte in enumerate(byte for byte in range(256) if byte not in letters)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": byte_level,
        "added_tokens": [{"id": END, "content": "<|endoftext|>", "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}],
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                  "vocab": {letters[byte]: byte for byte in range(256)}, "merges": []}}))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|endoftext|>"}')
