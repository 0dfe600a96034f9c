#include "data/records/inspect.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "data/records/record_file.hpp"
#include "data/records/record_format.hpp"
#include "data/text/json_lines.hpp"
#include "data/text/text_check.hpp"
#include "data/text/text_stream.hpp"
#include "data/tokens/token_id_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t ids_at_a_time = 1 << 18;

struct Answers {
  int64_t right = 0, wrong = 0;
};

struct FoundRecords {
  int64_t records = 0, longest = 0;
  std::map<int64_t, Answers> problems;
  int64_t weighted = 0, spans = 0;  ///< records with weights, and parts of answers
  float smallest = std::numeric_limits<float>::max(), largest = 0;
};

void add_weights(const Record& record, FoundRecords& found) {
  found.weighted += record.has_weights ? 1 : 0;
  const auto add = [&](float weight) {
    found.smallest = std::min(found.smallest, weight);
    found.largest = std::max(found.largest, weight);
  };
  for (const AnswerWeights& answer : record.weights) {
    add(answer.others);
    for (const AnswerWeights::Span& span : answer.spans) add(span.weight);
    found.spans += int64_t(answer.spans.size());
  }
}

FoundRecords find_records(const fs::path& file, bool weights, RecordMistakes& mistakes) {
  FoundRecords found;
  for_each_record(file, {.weights = weights}, mistakes, [&](const Record& record) {
    ++found.records;
    int64_t bytes = 0;
    for (const std::string& text : record_texts(record)) bytes += int64_t(text.size());
    found.longest = std::max(found.longest, bytes);
    Answers& answers = found.problems[record.identity];
    if (record.correct) ++(*record.correct ? answers.right : answers.wrong);
    add_weights(record, found);
  });
  return found;
}

}  // namespace

std::vector<Statistic> inspect_tokens(const fs::path& file, const std::string& dtype) {
  const TokenIdLayout layout = token_id_layout(file, dtype);
  const TokenIdFile ids(file, layout, std::numeric_limits<int64_t>::max());
  std::map<int64_t, int64_t> counts;
  std::vector<int64_t> block;
  for (int64_t first = 0; first < layout.count; first += int64_t(block.size())) {
    block.resize(size_t(std::min(ids_at_a_time, layout.count - first)));
    ids.read(first, int64_t(block.size()), block.data());
    for (const int64_t id : block) ++counts[id];
  }
  std::vector<Statistic> found{
      {"dtype", layout.type}, {"tokens", layout.count}, {"different_ids", int64_t(counts.size())}};
  if (counts.empty()) return found;
  const auto [id, most] = *std::max_element(counts.begin(), counts.end(), [](const auto& one, const auto& other) {
    return one.second < other.second;  // of several, the smallest id
  });
  found.insert(found.end(), {{"smallest_id", counts.begin()->first},
                             {"largest_id", counts.rbegin()->first},
                             {"most_frequent_id", id},
                             {"its_share", double(most) / double(layout.count)}});
  return found;
}

std::vector<Statistic> inspect_records(const fs::path& file) {
  RecordMistakes of_weights, mistakes;
  FoundRecords found = find_records(file, /*weights=*/true, of_weights);
  if (!of_weights.empty()) found = find_records(file, /*weights=*/false, mistakes);
  mistakes.raise();
  int64_t right = 0, wrong = 0, pairs = 0;
  for (const auto& [problem, answers] : found.problems) {
    right += answers.right;
    wrong += answers.wrong;
    pairs += std::min(answers.right, answers.wrong);
  }
  std::vector<Statistic> statistics{{"format", recognised_format(file)},
                                    {"records", found.records},
                                    {"problems", int64_t(found.problems.size())},
                                    {"right", right},
                                    {"wrong", wrong},
                                    {"unmarked", found.records - right - wrong},
                                    {"pairs", pairs},
                                    {"longest_bytes", found.longest}};
  if (!of_weights.empty()) {
    statistics.emplace_back("weights", "cannot be read: " + of_weights.first());
  } else if (found.weighted > 0) {
    statistics.insert(statistics.end(), {{"with_weights", found.weighted},
                                         {"weighted_spans", found.spans},
                                         {"smallest_weight", double(found.smallest)},
                                         {"largest_weight", double(found.largest)}});
  }
  return statistics;
}

std::vector<Statistic> inspect_text(const fs::path& file) {
  check_text_kind(file);
  int64_t lines = 0, longest = 0, too_long = 0;
  std::optional<std::string> fault;
  for_each_line(file, max_jsonl_line_bytes, [&](int64_t number, std::string_view line, size_t bytes) {
    ++lines;
    longest = std::max(longest, int64_t(bytes));
    if (bytes > max_jsonl_line_bytes) ++too_long;
    if (const size_t valid = valid_utf8_prefix(line); valid < line.size() && !fault)
      fault = "no: line " + std::to_string(number) + ", byte " + std::to_string(valid + 1);
    return true;
  });
  if (too_long > 0 && !fault)
    fault = "unknown: " + counted(too_long, "line") + (too_long == 1 ? " is" : " are") + " too long to check";
  std::vector<Statistic> found{{"bytes", int64_t(fs::file_size(file))},
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
