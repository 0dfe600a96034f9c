// Records: answers to instructions, one JSON object a line (JSONL).
//
// {"instruction": text, "input": text, "output": text, "task_id": text or whole number, "is_correct": true or false,
//  "metadata": {"difficulty": whole number}}
// `instruction` and `output` must be there; other keys are not read. Lines of white space are passed over. A file is
// read line by line, so that it may be larger than memory; a line longer than max_line_bytes is a mistake and never
// held whole. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace wmtp {

class WorkProgress;

constexpr size_t max_line_bytes = size_t{16} << 20;

struct Record {
  std::string instruction, input, output;
  int64_t problem = -1;  ///< made from task_id: the same for all answers to a problem; -1 without one
  int64_t identity = 0;  ///< `problem`, or made from the line where there is no task_id; never negative
  std::optional<bool> correct;
  std::optional<int64_t> difficulty;
};

/// What a record must have beyond instruction and output.
struct RecordNeeds {
  bool correct = false;
  bool difficulty = false;  ///< only then is `metadata` looked at
};

/// Whether a problem is one of the one in twenty that validation holds out: a function of its task_id alone, so that
/// every experiment leaves out the same ones.
inline bool is_held_out(const Record& record) { return record.identity % 20 == 0; }

/// The mistakes of several files, told together.
class RecordMistakes {
 public:
  void add(const std::filesystem::path& file, int64_t line, const std::string& what);
  /// So many that reading on would help nobody.
  bool full() const { return told_.size() >= 20; }
  /// Error(data) that lists them, each as "FILE:LINE: …" or "FILE:LINE:COLUMN: …" (columns from 1, in characters).
  void raise() const;

 private:
  std::vector<std::string> told_;
};

/// Gives each record to `take`, in the order of the file; a line with a mistake is added to `mistakes` and left out.
/// Stops when they are full. `progress`, where there is one, is told of the bytes. Error(data) when the file cannot be
/// read.
void for_each_record(const std::filesystem::path& file, const RecordNeeds& needs, RecordMistakes& mistakes,
                     const std::function<void(const Record&)>& take, WorkProgress* progress = nullptr);

/// What stands before the answer. "alpaca": the texts of Stanford Alpaca (github.com/tatsu-lab/stanford_alpaca,
/// train.py), with or without an input. "plain": instruction and input, each ended by a newline where it is not empty.
std::string prompt_of(const Record& record, const std::string& prompt_template);

}  // namespace wmtp
