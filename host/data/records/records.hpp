// Prepared records: an index that every rank holds in memory (40 bytes per record, and 4 for each further turn of a
// chat), and a file of ids, of which each rank reads only its own records. `records.ids` has uint16 or uint32 ids,
// little-endian, as written by TokenWriter; `records.index` and `records.turns` have entries and turns in their memory
// layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tokens/token_id_file.hpp"

namespace wmtp {

/// Token kinds in Batch::kind; 0 is padding.
constexpr uint8_t prompt_kind = 1, answer_kind = 2;

struct RecordEntry {
  int64_t offset = 0;    ///< of the first id, in ids
  int64_t problem = -1;  ///< the same for all answers to a problem; -1 unknown
  /// Index in the turns of the position where the answer ends, followed by that where the next one begins, and so on,
  /// up to `length`; -1: the answer ends with the record.
  int64_t turns = -1;
  int32_t length = 0;       ///< ids: prompt, answer and end_of_text, or a chat
  int32_t prompt = 0;       ///< ids before the first answer
  int32_t difficulty = -1;  ///< -1 unknown
  int8_t correct = -1;      ///< 1 right, 0 wrong, -1 unknown
  int8_t held_out = 0;      ///< 1: for validation
  int8_t unused[2] = {0, 0};

  /// Ids from the first answer on.
  int64_t answer() const { return length - prompt; }
  bool operator==(const RecordEntry&) const = default;
};
static_assert(sizeof(RecordEntry) == 40);

class Records {
 public:
  /// Error(data) if a file is missing or truncated, or the two do not match.
  Records(const std::filesystem::path& folder, bool wide, int64_t vocab_size);

  /// In file order; a record's number is its index here.
  const std::vector<RecordEntry>& entries() const { return entries_; }
  /// Writes the `length` ids of a record. Thread-safe. Errors as TokenIdFile::read.
  void read(int64_t record, int64_t* ids) const;
  /// Whether the record has further answers after its first one, as a chat may.
  bool has_several_answers(const RecordEntry& entry) const;
  /// Writes prompt_kind or answer_kind for each of the ids.
  void kinds(int64_t record, uint8_t* kinds) const;

  /// Opens the weights of all tokens (data/torch/record_prepare.hpp), for weights(). Error(data) if they do not match
  /// the ids.
  void open_weights(const std::filesystem::path& folder);
  /// Writes the weights of a record's tokens. [after open_weights]
  void weights(int64_t record, float* weights) const;

  static constexpr const char* weights_name = "records.weights";
  static constexpr const char* ids_name = "records.ids";
  static constexpr const char* index_name = "records.index";
  static constexpr const char* turns_name = "records.turns";

 private:
  void check() const;
  bool turns_fit(const RecordEntry& entry) const;

  std::vector<RecordEntry> entries_;
  std::vector<int32_t> turns_;
  TokenIdFile ids_;
  std::optional<InputFile> weights_;
};

}  // namespace wmtp
