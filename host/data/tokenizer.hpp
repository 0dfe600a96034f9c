// Tokenizers: text to ids and back. Knows no LibTorch; "bpe" uses SentencePiece, so it lives in the engine library.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/experiment.hpp"

namespace wmtp {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t end_of_text() const = 0;  ///< stands after every document
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  virtual std::string decode(const std::vector<int32_t>& ids) const = 0;
};

/// 256 bytes, begin 256, end 257.
std::unique_ptr<Tokenizer> byte_tokenizer();
/// Loads a SentencePiece model. Error(data) when the file is not one.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model);
/// Trains a BPE with byte fallback, digits split, whitespace and newlines kept, deterministic; writes `model`
/// atomically. Error(data) when the text is too small for the vocabulary (says the largest that fits).
void train_bpe(const std::vector<std::filesystem::path>& files, int64_t vocab_size, const std::filesystem::path& model);
/// What an experiment reads through: `model` is the file of a "bpe".
std::unique_ptr<Tokenizer> open_tokenizer(const TokenizerConfig& config, const std::filesystem::path& model);

}  // namespace wmtp
