// The tokenizer of a tokenizer.json (tokenizer_json.hpp): the ids are those of the tokenizers library, without the
// special tokens that its template adds. Bytes that are no UTF-8 become U+FFFD, as Python's errors="replace" makes
// them. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <memory>

#include "core/tokenizer/tokenizer.hpp"

namespace wmtp {

/// What ends a text is the eos_token of tokenizer_config.json beside `file`. Error(data) when either file is missing or
/// of a kind that is not read here. Not for several threads at once.
std::unique_ptr<Tokenizer> json_tokenizer(const std::filesystem::path& file);

}  // namespace wmtp
