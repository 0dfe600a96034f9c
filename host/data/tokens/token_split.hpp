// Which ids of which token files a run trains on and validates on.
//
// Files are divided as those of text are (data/tokens/corpus.hpp). With `[validation] share`, the last share of each
// file's ids is held out, rounded down to whole ids: the border does not depend on train.sequence_length, so that
// stages hold out the same ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/tokens/corpus.hpp"
#include "data/tokens/token_id_layout.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

struct TokenRange {
  std::filesystem::path file;
  TokenIdLayout layout;
  int64_t first = 0, count = 0;  ///< in ids

  int64_t windows(int64_t sequence_length) const { return count / sequence_length; }
};

struct TokenSplit {
  std::vector<TokenRange> train;       ///< sorted by path, as all lists of files
  std::vector<TokenRange> validation;  ///< empty if there is none
};

/// Throws the errors of split_text and token_id_layout, and Error(data) with the file's name if a file has ids of
/// another type than the first one: another program or tokenizer wrote it.
TokenSplit split_tokens(const Experiment& experiment);
TokenSplit split_tokens(const Experiment& experiment, const TextSplit& files);

/// The number of windows to train on.
int64_t training_windows(const Experiment& experiment);

}  // namespace wmtp
