// Tokenizers based on SentencePiece, the byte tokenizer, and the tokenizer of an experiment. (tokenizer.json:
// tokenizer/tokenizer.hpp.)
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/text/documents.hpp"
#include "experiment/experiment.hpp"
#include "tokenizer/tokenizer.hpp"

namespace wmtp {

/// 256 bytes; begin of text is 256, end of text 257.
std::unique_ptr<Tokenizer> byte_tokenizer();
/// Loads a SentencePiece model; tokenizer_config.json in its folder determines whether each text starts with a BOS
/// (tokenizer/tokenizer_files.hpp). Error(data) if the file is not a SentencePiece model.
std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::filesystem::path& model);

/// Trains a deterministic BPE with byte fallback that splits digits and keeps whitespace and newlines. Writes `model`
/// atomically. Error(data) if the text is too small for the vocabulary (gives the largest possible one).
void train_bpe(const std::vector<TextPart>& parts, int64_t vocab_size, const std::filesystem::path& model);
/// The tokenizer of an experiment; `file` is used for kinds "bpe" and "file". Error(data) if a "file" has more ids than
/// the model.
std::unique_ptr<Tokenizer> open_tokenizer(const Experiment& experiment, const std::filesystem::path& file);
/// Installs the experiment's tokenizer in `folder` and opens it. A "bpe" is trained into `model` if that does not
/// exist, on the documents that `text` returns.
std::unique_ptr<Tokenizer> prepare_tokenizer(const Experiment& experiment, const std::filesystem::path& model,
                                             const std::filesystem::path& folder,
                                             const std::function<std::vector<TextPart>()>& text,
                                             const std::function<void(const std::string&)>& log);

}  // namespace wmtp
