#include "data/tokens/token_split.hpp"

#include "base/error.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// All ids of `files`.
std::vector<TokenRange> whole_ranges(const Experiment& experiment, const std::vector<fs::path>& files) {
  std::vector<TokenRange> ranges;
  for (const fs::path& file : files) {
    const TokenIdLayout layout = token_id_layout(file, experiment.data.dtype, experiment.model.vocab_size);
    ranges.push_back({file, layout, 0, layout.count});
  }
  return ranges;
}

void check_same_type(const TokenRange& first, const std::vector<TokenRange>& others) {
  for (const TokenRange& other : others)
    if (other.layout.type != first.layout.type)
      throw Error(ExitStatus::data, other.file.string() + " has ids of " + other.layout.type + ", but " +
                                        first.file.string() + " has ids of " + first.layout.type +
                                        "; train on files that one program wrote for one tokenizer");
}

int64_t last_ids(const TokenRange& range, double share) { return int64_t(double(range.layout.count) * share); }

}  // namespace

TokenSplit split_tokens(const Experiment& experiment) { return split_tokens(experiment, split_text(experiment)); }

TokenSplit split_tokens(const Experiment& experiment, const TextSplit& files) {
  TokenSplit split{whole_ranges(experiment, files.train), whole_ranges(experiment, files.validation)};
  check_same_type(split.train.front(), split.train);
  check_same_type(split.train.front(), split.validation);
  for (TokenRange& range : split.train) range.count -= last_ids(range, held_out_share(experiment));
  if (experiment.validation.share == 0) return split;
  for (TokenRange& range : split.validation) {
    range.count = last_ids(range, experiment.validation.share);
    range.first = range.layout.count - range.count;
  }
  return split;
}

int64_t training_windows(const Experiment& experiment) {
  int64_t windows = 0;
  for (const TokenRange& range : split_tokens(experiment).train)
    windows += range.windows(experiment.train.sequence_length);
  return windows;
}

}  // namespace wmtp
