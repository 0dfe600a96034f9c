// TokenWindows: windows of sequence_length ids, by index. Each rank reads only its share, so a file may be larger than
// memory. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/tokens/token_split.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

class TokenWindows {
 public:
  virtual ~TokenWindows() = default;
  /// Number of windows; INT64_MAX for "random".
  virtual int64_t count() const = 0;
  /// Writes the `sequence_length` ids of window `index` (0-based). Error(data) with file, position and id if an id is
  /// not below the vocabulary's size or the file has shrunk.
  virtual void read(int64_t index, int64_t* ids) const = 0;
};

/// A file of ids. Throws the errors of token_id_layout, and Error(data) for fewer ids than one window. Ids after the
/// last complete window are ignored.
std::unique_ptr<TokenWindows> open_token_file(const std::filesystem::path& file, const std::string& dtype,
                                              int64_t sequence_length, int64_t vocab_size);

/// The windows of several files, one file after the other. As in llm.c, no window crosses the border of two files, and
/// the ids after the last complete window of each are ignored. Error(data) as open_token_file, for each file.
std::unique_ptr<TokenWindows> open_token_files(const std::vector<TokenRange>& ranges, int64_t sequence_length,
                                               int64_t vocab_size);

struct TokenParts {
  std::unique_ptr<TokenWindows> train;
  std::unique_ptr<TokenWindows> validation;  ///< null if there is none
};
/// Error(data) as open_token_files, and if there are fewer windows than train.steps need.
TokenParts open_token_parts(const Experiment& experiment, const TokenSplit& split, int64_t data_ranks);

/// Random ids, a function of (seed, window index), uniform below vocab_size.
std::unique_ptr<TokenWindows> random_windows(int64_t seed, int64_t sequence_length, int64_t vocab_size);

}  // namespace wmtp
