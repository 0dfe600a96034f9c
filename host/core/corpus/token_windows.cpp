#include "core/corpus/token_windows.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "core/corpus/id_file.hpp"
#include "core/corpus/step_count.hpp"

namespace wmtp {

namespace {

constexpr int64_t llm_c_header_bytes = 1024;
constexpr int32_t llm_c_uint16 = 20240520, llm_c_uint32 = 20240801;  // magic numbers

class TokenFile : public TokenWindows {
 public:
  TokenFile(const std::filesystem::path& file, bool wide, int64_t sequence_length, int64_t vocab_size)
      : ids_(file, wide, vocab_size,
             "; set model.vocab_size to that of the tokenizer that wrote the file, and check data.dtype"),
        sequence_length_(sequence_length) {
    check_size();
  }

  int64_t count() const override { return ids_.count() / sequence_length_; }

  void read(int64_t index, int64_t* ids) const override { ids_.read(index * sequence_length_, sequence_length_, ids); }

 private:
  void check_size() {
    const std::string name = ids_.path().string();
    if (ids_.bytes() == 0) throw Error(ExitStatus::data, "token file " + name + " is empty");
    if (ids_.bytes() % ids_.id_bytes() != 0)
      throw Error(ExitStatus::data, name + " has " + with_thousands(ids_.bytes()) + " bytes, not a multiple of the " +
                                        std::to_string(ids_.id_bytes()) + "-byte " + (wide() ? "uint32" : "uint16") +
                                        " id: the file is truncated, or data.dtype is wrong");
    if (has_llm_c_header()) ids_.skip_header(llm_c_header_bytes);
    if (ids_.count() < sequence_length_)
      throw Error(ExitStatus::data, name + " has " + with_thousands(ids_.count()) + " ids, fewer than one window of " +
                                        with_thousands(sequence_length_) +
                                        "; provide more data or lower train.sequence_length");
  }

  bool wide() const { return ids_.id_bytes() == 4; }

  /// A header that does not match the file is refused only if zeros follow it, as in llm.c's files: raw ids that happen
  /// to begin like a header are never refused.
  bool has_llm_c_header() const {
    const int64_t size = ids_.bytes();
    std::array<int32_t, llm_c_header_bytes / 4> header{};
    ids_.read_bytes(0, header.data(), static_cast<size_t>(std::min(size, llm_c_header_bytes)));
    const int32_t magic = header[0], version = header[1], count = header[2];
    if (magic != llm_c_uint16 && magic != llm_c_uint32) return false;
    const bool wide_ids = magic == llm_c_uint32;
    const int64_t ids = (size - llm_c_header_bytes) / (wide_ids ? 4 : 2);
    const bool fits = size > llm_c_header_bytes && version == (wide_ids ? 7 : 1) && count == ids;
    if (fits && wide_ids == wide()) return true;
    if (std::any_of(header.begin() + 3, header.end(), [](int32_t word) { return word != 0; })) return false;
    refuse_llm_c_header(wide_ids, version, count, ids);
  }

  [[noreturn]] void refuse_llm_c_header(bool wide_ids, int32_t version, int32_t count, int64_t ids) const {
    const std::string name = ids_.path().string(), dtype = wide_ids ? "uint32" : "uint16";
    const std::string header = name + " begins with a header of llm.c for " + dtype + " ids, ";
    if (wide_ids != wide())
      throw Error(ExitStatus::data, header + "but data.dtype is different; set data.dtype = \"" + dtype + "\"");
    const std::string wanted_version = wide_ids ? "7" : "1";
    if (std::to_string(version) != wanted_version)
      throw Error(ExitStatus::data, header + "of version " + std::to_string(version) + ", wanted " + wanted_version +
                                        "; write the file again, or remove the header: tail -c +1025 " + name);
    throw Error(ExitStatus::data, header + "which declares " + with_thousands(count) + " ids, but " +
                                      with_thousands(std::max<int64_t>(0, ids)) +
                                      " follow: the file is truncated or damaged; download or write it again");
  }

  IdFile ids_;
  int64_t sequence_length_;
};

class RandomWindows : public TokenWindows {
 public:
  RandomWindows(int64_t seed, int64_t sequence_length, int64_t vocab_size)
      : seed_(static_cast<uint64_t>(seed)), sequence_length_(sequence_length), vocab_size_(vocab_size) {}

  int64_t count() const override { return std::numeric_limits<int64_t>::max(); }

  void read(int64_t index, int64_t* ids) const override {
    const uint64_t key = hash64(seed_, static_cast<uint64_t>(index));
    for (int64_t i = 0; i < sequence_length_; ++i) {
      // The upper 64 bits of the product: uniform up to one part in 2^64 / vocab_size.
      const auto wide = static_cast<unsigned __int128>(hash64(key, static_cast<uint64_t>(i)));
      ids[i] = static_cast<int64_t>(wide * static_cast<uint64_t>(vocab_size_) >> 64);
    }
  }

 private:
  uint64_t seed_;
  int64_t sequence_length_, vocab_size_;
};

void check_enough_windows(const Experiment& experiment, int64_t num_windows, int64_t data_ranks) {
  const TrainConfig& train = experiment.train;
  if (train.epochs > 0) return;
  const int64_t each = sequences_per_step(train, data_ranks);
  if (train.steps <= num_windows / each) return;
  const double wanted = static_cast<double>(train.steps) * static_cast<double>(each);
  throw Error(ExitStatus::data, experiment.data.file + " has " + counted(num_windows, "window") + " of " +
                                    with_thousands(train.sequence_length) + " ids, but " +
                                    counted(train.steps, "step") + " of " + with_thousands(each) + " need " +
                                    with_thousands(wanted < 9e18 ? static_cast<int64_t>(wanted) : INT64_MAX) +
                                    "; lower train.steps to " + with_thousands(num_windows / each) +
                                    ", or set train.epochs to repeat the data");
}

}  // namespace

std::unique_ptr<TokenWindows> open_token_file(const std::filesystem::path& file, const std::string& dtype,
                                              int64_t sequence_length, int64_t vocab_size) {
  if (dtype != "uint16" && dtype != "uint32")
    throw Error(ExitStatus::data,
                "data.dtype of " + file.string() + ": found \"" + dtype + "\", wanted \"uint16\" or \"uint32\"");
  return std::make_unique<TokenFile>(file, dtype == "uint32", sequence_length, vocab_size);
}

std::unique_ptr<TokenWindows> open_training_tokens(const Experiment& experiment, int64_t data_ranks) {
  auto windows = open_token_file(experiment.resolve(experiment.data.file), experiment.data.dtype,
                                 experiment.train.sequence_length, experiment.model.vocab_size);
  check_enough_windows(experiment, windows->count(), data_ranks);
  return windows;
}

std::unique_ptr<TokenWindows> random_windows(int64_t seed, int64_t sequence_length, int64_t vocab_size) {
  return std::make_unique<RandomWindows>(seed, sequence_length, vocab_size);
}

}  // namespace wmtp
