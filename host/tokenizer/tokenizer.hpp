// Tokenizers: convert text to ids and back.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t end_of_text() const = 0;  ///< the id appended to every document
  /// The accepted input: any bytes, only UTF-8, or any bytes with invalid UTF-8 replaced by U+FFFD.
  enum class Reads { bytes, utf8, repaired };
  virtual Reads reads() const = 0;
  /// Special ids to put before a text.
  virtual std::vector<int32_t> prefix_ids() const { return {}; }
  /// prefix_ids(), or nothing if the text of `ids` begins with it already, as chat templates write it.
  std::vector<int32_t> missing_prefix_ids(const std::vector<int32_t>& ids) const;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// Appends the ids of the beginning of `text` and returns its length in bytes: the whole text or, if `more_follows`,
  /// the part whose ids further text cannot change. `before`: the last id of the text that precedes it, which was
  /// encoded in the same way; -1 if it is the first. (For Reads::repaired, the text must already be UTF-8.)
  virtual size_t encode_begin(std::string_view text, bool more_follows, std::vector<int32_t>& ids,
                              int32_t before = -1) const;
  /// Whether encode_begin can continue a text that is encoded already. Otherwise a whole text has to be encoded at
  /// once, because the tokenizer changes more at its beginning than the ids of a space.
  virtual bool encodes_continuations() const { return true; }
  virtual std::string decode(const std::vector<int32_t>& ids) const = 0;
  /// The text that an id stands for, including that of special tokens, which decode() leaves out.
  virtual std::string piece(int32_t id) const { return decode({id}); }
};

/// Loads a tokenizer.json (tokenizer_json.hpp). Produces the ids of the tokenizers library, without the special tokens
/// of its template; invalid UTF-8 becomes U+FFFD as with Python's errors="replace". A text ends with the eos_token of
/// tokenizer_config.json in the same folder. Error(data) if either file is missing or unsupported. Not thread-safe.
std::unique_ptr<Tokenizer> json_tokenizer(const std::filesystem::path& file);

/// One token as readable text, special tokens as </s>. Bytes that are not valid UTF-8 on their own appear as <0xE2>,
/// the end of a text without a name as <end of text>, and another token without text, or any if `tokenizer` is null,
/// as its id: <257>.
std::string token_text(const Tokenizer* tokenizer, int64_t id);

}  // namespace wmtp
