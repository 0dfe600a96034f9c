// Prepared records: an index that every rank holds in memory (32 bytes per record), and a file of ids, of which each
// rank reads only its own records. `records.ids` has uint16 or uint32 ids, little-endian, as written by TokenWriter;
// `records.index` has the entries in their memory layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/corpus/id_file.hpp"

namespace wmtp {

struct RecordEntry {
  int64_t offset = 0;       ///< of the first id, in ids
  int64_t problem = -1;     ///< the same for all answers to a problem; -1 unknown
  int32_t length = 0;       ///< ids: prompt, answer and end_of_text
  int32_t prompt = 0;       ///< ids of the prompt
  int32_t difficulty = -1;  ///< -1 unknown
  int8_t correct = -1;      ///< 1 right, 0 wrong, -1 unknown
  int8_t held_out = 0;      ///< 1: for validation
  int8_t unused[2] = {0, 0};

  int64_t answer() const { return length - prompt; }
  bool operator==(const RecordEntry&) const = default;
};
static_assert(sizeof(RecordEntry) == 32);

class Records {
 public:
  /// Error(data) if a file is missing or truncated, or the two do not match.
  Records(const std::filesystem::path& folder, bool wide, int64_t vocab_size);

  /// In file order; a record's number is its index here.
  const std::vector<RecordEntry>& entries() const { return entries_; }
  /// Writes the `length` ids of a record. Thread-safe. Errors as IdFile::read.
  void read(int64_t record, int64_t* ids) const;

  static constexpr const char* ids_name = "records.ids";
  static constexpr const char* index_name = "records.index";

 private:
  void check() const;

  std::vector<RecordEntry> entries_;
  IdFile ids_;
};

}  // namespace wmtp
