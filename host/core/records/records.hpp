// Records as ids: an index that every rank holds (32 bytes a record), and a file of ids of which each rank reads its
// own records only. `records.ids` holds uint16 or uint32, little-endian, as TokenWriter writes them; `records.index`
// the entries as they lie in memory. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

struct RecordEntry {
  int64_t offset = 0;       ///< of the first id, counted in ids
  int64_t problem = -1;     ///< the same for all answers to a problem; -1 not known
  int32_t length = 0;       ///< ids: prompt, answer and end_of_text
  int32_t prompt = 0;       ///< ids of the prompt
  int32_t difficulty = -1;  ///< -1 not known
  int8_t correct = -1;      ///< 1 right, 0 wrong, -1 not known
  int8_t held_out = 0;      ///< 1: for validation
  int8_t unused[2] = {0, 0};

  int64_t answer() const { return length - prompt; }
  bool operator==(const RecordEntry&) const = default;
};
static_assert(sizeof(RecordEntry) == 32);

class Records {
 public:
  /// Error(data) when a file is missing, cut or does not fit the other.
  Records(const std::filesystem::path& folder, bool wide, int64_t vocab_size);
  ~Records();
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  /// In the order of the files; a record's place is its number everywhere.
  const std::vector<RecordEntry>& entries() const { return entries_; }
  /// Writes the `length` ids of a record. Safe to use from many threads. Error(data) with file, position and id when an
  /// id is not below the vocabulary's size, or when the file has shrunk.
  void read(int64_t record, int64_t* ids) const;

  static constexpr const char* ids_name = "records.ids";
  static constexpr const char* index_name = "records.index";

 private:
  void check(int64_t num_ids) const;

  std::filesystem::path file_;
  int64_t id_bytes_, vocab_size_;
  int descriptor_ = -1;
  std::vector<RecordEntry> entries_;
};

}  // namespace wmtp
