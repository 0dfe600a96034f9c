#include "core/records/inspect.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "core/documents/foreign_formats.hpp"
#include "core/documents/json_lines.hpp"
#include "core/documents/text_stream.hpp"
#include "core/records/record_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t block_bytes = size_t{1} << 20;

template <class Id>
std::vector<Finding> findings_of_ids(std::ifstream& in, int64_t tokens) {
  std::unordered_map<Id, int64_t> counts;
  std::vector<Id> block(block_bytes / sizeof(Id));
  while (in.read(reinterpret_cast<char*>(block.data()), block_bytes), in.gcount() > 0)
    for (size_t i = 0; i < size_t(in.gcount()) / sizeof(Id); ++i) ++counts[block[i]];
  std::vector<Finding> found{{"tokens", tokens}, {"different_ids", int64_t(counts.size())}};
  if (counts.empty()) return found;
  Id smallest = std::numeric_limits<Id>::max(), largest = 0, most_frequent = 0;
  int64_t most = 0;
  for (const auto& [id, count] : counts) {
    smallest = std::min(smallest, id);
    largest = std::max(largest, id);
    if (count > most || (count == most && id < most_frequent)) {
      most = count;
      most_frequent = id;
    }
  }
  found.insert(found.end(), {{"smallest_id", int64_t(smallest)},
                             {"largest_id", int64_t(largest)},
                             {"most_frequent_id", int64_t(most_frequent)},
                             {"its_share", double(most) / double(tokens)}});
  return found;
}

struct Answers {
  int64_t right = 0, wrong = 0;
};

}  // namespace

std::vector<Finding> inspect_tokens(const fs::path& file, const std::string& dtype) {
  refuse_foreign_format(file, FileContent::tokens);
  const int64_t bytes_of_id = dtype == "uint16" ? 2 : 4;
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(ExitStatus::data, "cannot read " + file.string() + ": " + std::strerror(errno));
  const auto bytes = int64_t(fs::file_size(file));
  if (bytes % bytes_of_id != 0)
    throw Error(ExitStatus::data, file.string() + ": " + std::to_string(bytes) +
                                      " bytes are not a multiple of the size of " + dtype + " ids; correct --dtype");
  return bytes_of_id == 2 ? findings_of_ids<uint16_t>(in, bytes / 2) : findings_of_ids<uint32_t>(in, bytes / 4);
}

std::vector<Finding> inspect_records(const fs::path& file) {
  RecordMistakes mistakes;
  int64_t records = 0, longest = 0;
  std::map<int64_t, Answers> problems;
  for_each_record(file, {}, mistakes, [&](const Record& record) {
    ++records;
    longest = std::max(longest, int64_t(record.instruction.size() + record.input.size() + record.output.size()));
    Answers& answers = problems[record.identity];
    if (record.correct) ++(*record.correct ? answers.right : answers.wrong);
  });
  mistakes.raise();
  int64_t right = 0, wrong = 0, pairs = 0;
  for (const auto& [problem, answers] : problems) {
    right += answers.right;
    wrong += answers.wrong;
    pairs += std::min(answers.right, answers.wrong);
  }
  return {{"records", records},      {"problems", int64_t(problems.size())}, {"right", right},
          {"wrong", wrong},          {"unmarked", records - right - wrong},  {"pairs", pairs},
          {"longest_bytes", longest}};
}

std::vector<Finding> inspect_text(const fs::path& file) {
  check_text_file(file);
  int64_t lines = 0, longest = 0, too_long = 0;
  std::optional<std::string> fault;
  for_each_line(file, longest_jsonl_line, [&](int64_t number, std::string_view line, size_t bytes) {
    ++lines;
    longest = std::max(longest, int64_t(bytes));
    if (bytes > longest_jsonl_line) ++too_long;
    if (const size_t valid = valid_utf8(line); valid < line.size() && !fault)
      fault = "no: line " + std::to_string(number) + ", byte " + std::to_string(valid + 1);
    return true;
  });
  if (too_long > 0 && !fault)
    fault = "unknown: " + counted(too_long, "line") + (too_long == 1 ? " is" : " are") + " too long to check";
  std::vector<Finding> found{{"bytes", int64_t(fs::file_size(file))},
                             {"lines", lines},
                             {"longest_line_bytes", longest},
                             {"utf8", fault.value_or("yes")}};
  TextStream text(file);
  int64_t documents = 0;
  while (text.is_json_lines() && text.next_text()) ++documents;
  text.skip_to(std::numeric_limits<int64_t>::max());
  if (text.is_json_lines()) found.emplace_back("documents", documents);
  if (text.offset() != int64_t(fs::file_size(file))) found.emplace_back("text_bytes", text.offset());
  return found;
}

}  // namespace wmtp
