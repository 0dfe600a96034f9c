// Records: answers to instructions, or chats, one JSON object per line (JSONL), in one of the formats of
// record_format.hpp, each with
//
// {"task_id": text or whole number, "is_correct": true or false, "metadata": {"difficulty": whole number}}
// Unknown keys are ignored, blank lines are skipped. A file is read line by line and may be larger than memory; a line
// longer than max_line_bytes is a mistake and never held in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/records/prompt.hpp"

namespace wmtp {

class WorkProgress;

constexpr size_t max_line_bytes = size_t{16} << 20;

/// The weights of an answer's tokens: of those that have a character of a span, the first such span's.
struct AnswerWeights {
  struct Span {
    size_t begin, end;  ///< bytes of the answer: `output`, or the content of a message
    float weight;
  };
  float others = 1;         ///< of tokens without a span
  std::vector<Span> spans;  ///< in their order in the text; they do not overlap
};

struct Record : Prompt {
  std::string output;          ///< empty for a chat
  size_t prompt_messages = 0;  ///< of a chat: its answers are the assistant's messages after these
  int64_t problem = -1;   ///< hash of task_id (of the line for a preference), the same for all answers; -1 without one
  int64_t question = -1;  ///< hash of what the record asks; -1 until its line is read
  int64_t identity = 0;   ///< hash of task_id, without it the question; never negative
  std::optional<bool> correct;
  std::optional<int64_t> difficulty;
  bool has_weights = false;            ///< whether its line has a weight or weights, also of a message
  bool weighs_messages = false;        ///< whether an answer's message has a weight other than 1
  float weight = 1;                    ///< of its prompt
  std::vector<AnswerWeights> weights;  ///< of each of its answers; empty unless RecordNeeds::weights
};

/// How to read the lines of files, and which fields they need besides those of their format.
struct RecordNeeds {
  bool correct = false;
  bool difficulty = false;  ///< otherwise `metadata` is ignored
  std::string format = {};  ///< "": recognised for each file
  bool weights = false;     ///< otherwise weights are not read
};

/// Whether validation holds out the record's problem: one problem in twenty. Depends only on task_id, or the question,
/// so that every experiment holds out the same problems.
inline bool is_held_out(const Record& record) { return record.identity % 20 == 0; }

/// The mistakes of several files, for one error message.
class RecordMistakes {
 public:
  void add(const std::filesystem::path& file, int64_t line, const std::string& what);
  /// Whether there are so many mistakes that reading stops.
  bool full() const { return mistakes_.size() >= 20; }
  bool empty() const { return mistakes_.empty(); }
  /// [not empty]
  const std::string& first() const { return mistakes_.front(); }
  /// Error(data) that lists them as "FILE:LINE: …" or "FILE:LINE:COLUMN: …" (columns in characters, from 1).
  void raise() const;

 private:
  std::vector<std::string> mistakes_;
};

/// Calls `on_record` for each record in file order; a line with a mistake is added to `mistakes` and skipped, and so is
/// a LineMistake that `on_record` throws. Stops when `mistakes` is full. `progress`, if not null, counts bytes.
/// Error(data) if the file cannot be read, or has no known format.
void for_each_record(const std::filesystem::path& file, const RecordNeeds& needs, RecordMistakes& mistakes,
                     const std::function<void(const Record&)>& on_record, WorkProgress* progress = nullptr);

/// The text before the answer. "alpaca": the templates of Stanford Alpaca (github.com/tatsu-lab/stanford_alpaca,
/// train.py), with or without an input. "plain": instruction and input, each followed by a newline if not empty.
/// "none": the instruction as it is.
std::string format_prompt(const Prompt& prompt, const std::string& prompt_template);

/// The texts of a record, or of the messages of a chat, that are not empty.
std::vector<std::string> record_texts(const Record& record);

}  // namespace wmtp
