// Tokenizers: text to ids and back. Knows no LibTorch; "bpe" uses SentencePiece, so it lives in the engine library.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/documents.hpp"
#include "core/experiment/experiment.hpp"

namespace wmtp {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t end_of_text() const = 0;  ///< stands after every document
  /// Which texts it takes: all bytes, UTF-8 alone, or all bytes with U+FFFD in place of what is no UTF-8.
  enum class Reads { bytes, utf8, repaired };
  virtual Reads reads() const = 0;
  /// Special ids that belong before a text.
  virtual std::vector<int32_t> before_text() const { return {}; }
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// Appends ids of the beginning of a text, and returns how many bytes it was; of all of it unless the text `goes_on`,
  /// then as far as no more text can change them. (Of Reads::repaired the text is UTF-8 already.)
  virtual size_t encode_begin(std::string_view text, bool goes_on, std::vector<int32_t>& ids) const;
  virtual std::string decode(const std::vector<int32_t>& ids) const = 0;
};

/// 256 bytes, begin 256, end 257.
std::unique_ptr<Tokenizer> byte_tokenizer();
/// Loads a SentencePiece model; whether its BOS stands before a text is said beside it (tokenizer_files.hpp).
/// Error(data) when the file is not one.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model);
/// Trains a BPE with byte fallback, digits split, whitespace and newlines kept, deterministic; writes `model`
/// atomically. Error(data) when the text is too small for the vocabulary (says the largest that fits).
void train_bpe(const std::vector<TextPart>& parts, int64_t vocab_size, const std::filesystem::path& model);
/// What an experiment reads through: `file` is that of a "bpe" or a "file". Error(data) where a "file" has more ids
/// than the model.
std::unique_ptr<Tokenizer> open_tokenizer(const Experiment& experiment, const std::filesystem::path& file);

}  // namespace wmtp
