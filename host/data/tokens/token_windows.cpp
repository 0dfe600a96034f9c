#include "data/tokens/token_windows.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "data/tokens/step_count.hpp"
#include "data/tokens/token_id_file.hpp"

namespace wmtp {

namespace {

class TokenFiles : public TokenWindows {
 public:
  TokenFiles(const std::vector<TokenRange>& ranges, int64_t sequence_length, int64_t vocab_size)
      : sequence_length_(sequence_length) {
    for (const TokenRange& range : ranges) {
      if (range.count < sequence_length_) refuse_short(range);
      parts_.push_back(
          {std::make_unique<TokenIdFile>(
               range.file, range.layout, vocab_size,
               "; set model.vocab_size to that of the tokenizer that wrote the file, and check data.dtype"),
           range.first, count_});
      count_ += range.windows(sequence_length_);
    }
  }

  int64_t count() const override { return count_; }

  void read(int64_t index, int64_t* ids) const override {
    const auto after = std::ranges::upper_bound(parts_, index, {}, &Part::first_window);
    const Part& part = *std::prev(after);
    part.ids->read(part.first_id + (index - part.first_window) * sequence_length_, sequence_length_, ids);
  }

 private:
  struct Part {
    std::unique_ptr<TokenIdFile> ids;
    int64_t first_id, first_window;
  };

  [[noreturn]] void refuse_short(const TokenRange& range) const {
    const bool is_whole = range.count == range.layout.count;
    throw Error(ExitStatus::data, range.file.string() + " has " + with_thousands(range.count) + " ids" +
                                      (is_whole ? "" : " on one side of validation.share") +
                                      ", fewer than one window of " + with_thousands(sequence_length_) +
                                      "; provide more data or lower train.sequence_length");
  }

  std::vector<Part> parts_;
  int64_t sequence_length_, count_ = 0;
};

class RandomWindows : public TokenWindows {
 public:
  RandomWindows(int64_t seed, int64_t sequence_length, int64_t vocab_size)
      : seed_(uint64_t(seed)), sequence_length_(sequence_length), vocab_size_(vocab_size) {}

  int64_t count() const override { return std::numeric_limits<int64_t>::max(); }

  void read(int64_t index, int64_t* ids) const override {
    const uint64_t key = hash64(seed_, uint64_t(index));
    for (int64_t i = 0; i < sequence_length_; ++i) {
      // The upper 64 bits of the product: uniform up to one part in 2^64 / vocab_size.
      const auto wide = static_cast<unsigned __int128>(hash64(key, uint64_t(i)));
      ids[i] = int64_t(wide * uint64_t(vocab_size_) >> 64);
    }
  }

 private:
  uint64_t seed_;
  int64_t sequence_length_, vocab_size_;
};

void check_enough_windows(const Experiment& experiment, int64_t num_windows, int64_t data_ranks) {
  const TrainConfig& train = experiment.train;
  const DataConfig& data = experiment.data;
  const std::string found = (data.file.empty() ? join_names(data.files) : data.file) + " has " +
                            counted(num_windows, "window") + " of " + with_thousands(train.sequence_length) + " ids";
  check_fills_a_step(train, num_windows, data_ranks, found, "windows: more ids, or a shorter train.sequence_length");
  if (train.epochs > 0) return;
  const int64_t each = sequences_per_step(train, data_ranks);
  if (train.steps <= num_windows / each) return;
  const double wanted = double(train.steps) * double(each);
  throw Error(ExitStatus::data, found + ", but " + counted(train.steps, "step") + " of " + with_thousands(each) +
                                    " need " + with_thousands(wanted < 9e18 ? int64_t(wanted) : INT64_MAX) +
                                    "; lower train.steps to " + with_thousands(num_windows / each) +
                                    ", or set train.epochs to repeat the data");
}

}  // namespace

std::unique_ptr<TokenWindows> open_token_file(const std::filesystem::path& file, const std::string& dtype,
                                              int64_t sequence_length, int64_t vocab_size) {
  const TokenIdLayout layout = token_id_layout(file, dtype, vocab_size);
  return open_token_files({{file, layout, 0, layout.count}}, sequence_length, vocab_size);
}

std::unique_ptr<TokenWindows> open_token_files(const std::vector<TokenRange>& ranges, int64_t sequence_length,
                                               int64_t vocab_size) {
  return std::make_unique<TokenFiles>(ranges, sequence_length, vocab_size);
}

TokenParts open_token_parts(const Experiment& experiment, const TokenSplit& split, int64_t data_ranks) {
  const auto open = [&](const std::vector<TokenRange>& ranges) {
    return open_token_files(ranges, experiment.train.sequence_length, experiment.model.vocab_size);
  };
  TokenParts parts{open(split.train), split.validation.empty() ? nullptr : open(split.validation)};
  check_enough_windows(experiment, parts.train->count(), data_ranks);
  return parts;
}

std::unique_ptr<TokenWindows> random_windows(int64_t seed, int64_t sequence_length, int64_t vocab_size) {
  return std::make_unique<RandomWindows>(seed, sequence_length, vocab_size);
}

}  // namespace wmtp
