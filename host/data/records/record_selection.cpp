#include "data/records/record_selection.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/records/record_pairs.hpp"

namespace wmtp {

namespace {

const char* part_name(RecordPart part) { return part == RecordPart::train ? "to train on" : "for validation"; }

std::string counted(size_t number) { return with_thousands(int64_t(number)); }

class Selector {
 public:
  Selector(const Experiment& experiment, const Records& records, RecordPart part)
      : data_(experiment.data),
        entries_(records.entries()),
        part_(part),
        seed_(part == RecordPart::train ? experiment.seed : 0) {
    for (const std::string& bin : data_.difficulty.bins) ranges_.push_back(*parse_difficulty_range(bin));
  }

  RecordSelection select(bool pairs) {
    const std::vector<int64_t> chosen = choose();
    RecordSelection selection{ranges_, std::vector<std::vector<int64_t>>(std::max<size_t>(1, ranges_.size()))};
    if (pairs) {
      const auto found = find_pairs(entries_, chosen, {data_.length_bins, data_.max_pairs_per_problem, seed_});
      if (found.empty()) fail_without_pairs(chosen);
      for (const RecordPair& pair : found) {
        auto& list = selection.records[list_of(pair.right)];
        list.insert(list.end(), {pair.right, pair.wrong});
      }
    } else {
      for (const int64_t record : chosen) selection.records[list_of(record)].push_back(record);
    }
    check_bins(selection, pairs);
    return selection;
  }

 private:
  const RecordEntry& entry(int64_t record) const { return entries_[size_t(record)]; }

  size_t list_of(int64_t record) const {
    return ranges_.empty() ? 0 : size_t(bin_of(ranges_, entry(record).difficulty));
  }

  /// Validation includes bins of weight 0, to measure what was not trained on.
  bool is_drawn(size_t bin) const {
    return part_ == RecordPart::validation || data_.difficulty.weights[bin] > 0 ||
           data_.difficulty.end_weights[bin] > 0;
  }

  std::vector<int64_t> choose() const {
    std::vector<int64_t> chosen;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const RecordEntry& one = entries_[i];
      if ((one.held_out == 1) != (part_ == RecordPart::validation)) continue;
      if (data_.select == AnswerSelection::correct && one.correct != 1) continue;
      const int64_t bin = bin_of(ranges_, one.difficulty);
      if (!ranges_.empty() && (bin < 0 || !is_drawn(size_t(bin)))) continue;
      chosen.push_back(int64_t(i));
    }
    if (chosen.empty()) fail_without_records();
    return chosen;
  }

  [[noreturn]] void fail_without_records() const {
    size_t all = 0, correct = 0;
    std::set<int32_t> difficulties;
    for (const RecordEntry& one : entries_) {
      if ((one.held_out == 1) != (part_ == RecordPart::validation)) continue;
      ++all;
      correct += one.correct == 1;
      difficulties.insert(one.difficulty);
    }
    std::string text = std::string("no records remain ") + part_name(part_) + ": of " + counted(all) + " records " +
                       counted(correct) + " are right (data.select = \"" + to_string(data_.select) + "\")";
    if (!ranges_.empty() && !difficulties.empty())
      text += ", and [data.difficulty] draws from " + join_names(data_.difficulty.bins) +
              "; difficulties in the data: " + std::to_string(*difficulties.begin()) + " to " +
              std::to_string(*difficulties.rbegin());
    throw Error(ExitStatus::data, text);
  }

  [[noreturn]] void fail_without_pairs(const std::vector<int64_t>& chosen) const {
    std::set<int64_t> problems;
    size_t right = 0, wrong = 0, without = 0;
    for (const int64_t record : chosen) {
      right += entry(record).correct == 1;
      wrong += entry(record).correct == 0;
      if (entry(record).problem >= 0)
        problems.insert(entry(record).problem);
      else
        ++without;
    }
    throw Error(ExitStatus::data,
                std::string("the pipeline reads pairs of a right and a wrong answer to one problem, but there is no "
                            "pair among the records ") +
                    part_name(part_) + ": found " + counted(chosen.size()) + " records of " + counted(problems.size()) +
                    " problems, " + counted(right) + " right, " + counted(wrong) + " wrong, " +
                    counted(chosen.size() - right - wrong) + " without is_correct, " + counted(without) +
                    " without task_id; both answers must be in the same bin of data.length_bins");
  }

  void check_bins(const RecordSelection& selection, bool pairs) const {
    if (part_ == RecordPart::validation) return;
    std::set<int32_t> difficulties;
    for (const RecordEntry& one : entries_) difficulties.insert(one.difficulty);
    for (size_t bin = 0; bin < ranges_.size(); ++bin) {
      if (!is_drawn(bin) || !selection.records[bin].empty()) continue;
      throw Error(ExitStatus::data,
                  "[data.difficulty] draws from bin \"" + data_.difficulty.bins[bin] + "\", but no " +
                      (pairs ? "pair" : "record") + " " + part_name(part_) +
                      " is in it; the records' difficulties are " + std::to_string(*difficulties.begin()) + " to " +
                      std::to_string(*difficulties.rbegin()) + "; set its weight to 0 or change its bounds");
    }
  }

  const DataConfig& data_;
  const std::vector<RecordEntry>& entries_;
  RecordPart part_;
  int64_t seed_;  ///< constant for validation, so that runs with different seeds use the same pairs
  std::vector<DifficultyRange> ranges_;
};

}  // namespace

RecordSelection select_records(const Experiment& experiment, const Records& records, RecordPart part, bool pairs) {
  if (pairs && experiment.data.select == AnswerSelection::correct)
    throw Error(ExitStatus::usage,
                "the pipeline reads pairs of a right and a wrong answer, but data.select = \"correct\" "
                "excludes the wrong ones; set data.select = \"all\"");
  return Selector(experiment, records, part).select(pairs);
}

}  // namespace wmtp
