// Tokens as people read them, one by one.
#pragma once

#include <cstdint>
#include <string>

#include "core/tokenizer/tokenizer.hpp"

namespace wmtp {

/// The token's own text. Bytes that are no UTF-8 by themselves stand as <0xE2>, and a token without text, or without a
/// tokenizer (null), as <257>, its id.
std::string token_text(const Tokenizer* tokenizer, int64_t id);

}  // namespace wmtp
