// Preparation of text: tokenizer and token files, made once and kept by content hash.
//
// `<database's folder>/cache/<hash>/` holds tokenizer.model (bpe), train.bin, validation.bin and prepared.json; it is
// built in a temporary folder beside it and renamed, so that a crash or two runs at once leave no half. Documents (files)
// are joined, each followed by end_of_text. A file that is not UTF-8 is taken as bytes by "byte", and skipped with a
// warning by "bpe". Knows no LibTorch; in the engine library because of SentencePiece.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "data/token_windows.hpp"
#include "data/tokenizer.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

struct Prepared {
  std::filesystem::path folder;      ///< empty for "tokens" and "random"
  std::unique_ptr<Tokenizer> tokenizer;  ///< null for "tokens" and "random"
  std::unique_ptr<TokenWindows> train;
  std::unique_ptr<TokenWindows> validation;  ///< null when there is none
};

/// Builds what is missing. [rank 0; others wait, then call open_prepared]
/// `say` gets one line for each long part ("training a tokenizer of 4,096 pieces on 1,020 files").
void prepare_data(const Experiment& experiment, const std::filesystem::path& cache,
                  const std::function<void(const std::string&)>& say);

/// Opens what prepare_data built. [any rank] Error(data) when it is missing, empty or has too few windows for the run
/// (unless `epochs` says to go round) naming how many there are and how many are wanted.
Prepared open_prepared(const Experiment& experiment, const std::filesystem::path& cache, int64_t world_size);

}  // namespace wmtp
