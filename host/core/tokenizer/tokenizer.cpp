// What a tokenizer does unless it knows better. In the core library, whose byte-level tokenizer is one too.
#include "core/tokenizer/tokenizer.hpp"

#include "base/utf8.hpp"

namespace wmtp {

size_t Tokenizer::encode_begin(std::string_view text, bool goes_on, std::vector<int32_t>& ids) const {
  const size_t taken = goes_on ? cut_of(text) : text.size();
  const std::vector<int32_t> made = encode(text.substr(0, taken));
  ids.insert(ids.end(), made.begin(), made.end());
  return taken;
}

}  // namespace wmtp
