#include "tokenizer/tokenizer.hpp"

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace wmtp {

std::vector<int32_t> Tokenizer::missing_prefix_ids(const std::vector<int32_t>& ids) const {
  const std::vector<int32_t> before = prefix_ids();
  const bool begins = !before.empty() && !ids.empty() && ids[0] == before[0];
  return begins ? std::vector<int32_t>() : before;
}

size_t Tokenizer::encode_begin(std::string_view text, bool more_follows, std::vector<int32_t>& ids,
                               int32_t /*before*/) const {
  const size_t length = more_follows ? split_point(text) : text.size();
  const std::vector<int32_t> encoded = encode(text.substr(0, length));
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  return length;
}

std::string token_text(const Tokenizer* tokenizer, int64_t id) {
  std::string bytes = tokenizer ? tokenizer->decode({int32_t(id)}) : "";
  if (bytes.empty() && tokenizer) bytes = tokenizer->piece(int32_t(id));
  if (bytes.empty() && tokenizer && id == tokenizer->end_of_text()) return "<end of text>";
  if (bytes.empty()) return printed("<%lld>", static_cast<long long>(id));
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const size_t valid = valid_utf8_prefix(std::string_view(bytes).substr(at));
    text += bytes.substr(at, valid);
    at += valid;
    if (at < bytes.size()) text += printed("<0x%02X>", unsigned(uint8_t(bytes[at++])));
  }
  return text;
}

}  // namespace wmtp
