#include "data/records/records.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the files are copies of the values in memory");

template <class T>
std::vector<T> read_all(const fs::path& file) {
  std::error_code failure;
  const auto bytes = fs::file_size(file, failure);
  if (failure || bytes % sizeof(T) != 0)
    throw Error(ExitStatus::data,
                file.string() + " is missing or truncated; remove its folder: the next run prepares the records again");
  std::vector<T> values(bytes / sizeof(T));
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(values.data()), std::streamsize(bytes));
  if (!in) throw Error(ExitStatus::data, "cannot read " + file.string());
  return values;
}

}  // namespace

Records::Records(const fs::path& folder, bool wide, int64_t vocab_size)
    : entries_(read_all<RecordEntry>(folder / index_name)),
      turns_(read_all<int32_t>(folder / turns_name)),
      ids_(folder / ids_name, raw_ids(folder / ids_name, wide ? "uint32" : "uint16"), vocab_size) {
  check();
}

void Records::read(int64_t record, int64_t* ids) const {
  const RecordEntry& entry = entries_[size_t(record)];
  ids_.read(entry.offset, entry.length, ids);
}

bool Records::has_several_answers(const RecordEntry& entry) const {
  return entry.turns >= 0 && turns_[size_t(entry.turns)] < entry.length &&
         turns_[size_t(entry.turns) + 1] < entry.length;
}

void Records::kinds(int64_t record, uint8_t* kinds) const {
  const RecordEntry& entry = entries_[size_t(record)];
  std::fill(kinds, kinds + entry.prompt, prompt_kind);
  std::fill(kinds + entry.prompt, kinds + entry.length, answer_kind);
  if (entry.turns < 0) return;
  uint8_t kind = prompt_kind;
  for (auto turn = turns_.begin() + entry.turns; *turn < entry.length; ++turn) {
    std::fill(kinds + *turn, kinds + entry.length, kind);
    kind = kind == prompt_kind ? answer_kind : prompt_kind;
  }
}

void Records::open_weights(const fs::path& folder) {
  const fs::path file = folder / weights_name;
  weights_.emplace(file);
  if (weights_->size() != ids_.count() * int64_t(sizeof(float)))
    throw Error(ExitStatus::data, file.string() + " does not match " + ids_.path().string() +
                                      "; remove its folder: the next run prepares the weights again");
}

void Records::weights(int64_t record, float* weights) const {
  const RecordEntry& entry = entries_[size_t(record)];
  weights_->read_at(entry.offset * int64_t(sizeof(float)), weights, size_t(entry.length) * sizeof(float));
}

bool Records::turns_fit(const RecordEntry& entry) const {
  if (entry.turns == -1) return true;
  int32_t before = entry.prompt;
  for (int64_t i = entry.turns; i >= 0 && i < int64_t(turns_.size()); ++i) {
    const int32_t turn = turns_[size_t(i)];
    if (turn <= before || turn > entry.length) return false;
    if (turn == entry.length) return true;
    before = turn;
  }
  return false;
}

void Records::check() const {
  for (const RecordEntry& entry : entries_) {
    const bool fits = entry.prompt >= 0 && entry.length > entry.prompt && entry.offset >= 0 &&
                      entry.offset <= ids_.count() - entry.length && turns_fit(entry);
    if (!fits)
      throw Error(ExitStatus::data, "records.index does not match " + ids_.path().string() +
                                        "; remove the folder: the next run prepares the records again");
  }
}

}  // namespace wmtp
