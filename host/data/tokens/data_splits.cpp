#include "data/tokens/data_splits.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

enum class Split { none, train, validation, test };

struct SplitWord {
  std::string_view word;
  Split split;
};
constexpr std::array split_words{SplitWord{"train", Split::train},
                                 SplitWord{"training", Split::train},
                                 SplitWord{"validation", Split::validation},
                                 SplitWord{"valid", Split::validation},
                                 SplitWord{"val", Split::validation},
                                 SplitWord{"dev", Split::validation},
                                 SplitWord{"test", Split::test},
                                 SplitWord{"testing", Split::test},
                                 SplitWord{"eval", Split::test},
                                 SplitWord{"evaluation", Split::test}};

Split split_of_word(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  for (const SplitWord& one : split_words)
    if (one.word == word) return one.split;
  return Split::none;
}

std::vector<std::string> split_words_of_name(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : name)
    if (std::string_view("-_. ").find(c) != std::string_view::npos)
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

bool is_number(const std::string& word) {
  return word == "of" || std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// The split's word ends the name, or is followed by a number or by one more word: gsm8k-train, test_00000-of-00002,
/// train_sft; not test-driven-development.
Split split_of_name(fs::path name) {
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  std::vector<std::string> words = split_words_of_name(name.stem().string());
  while (words.size() > 1 && is_number(words.back())) words.pop_back();
  const Split last = split_of_word(words.back());
  return last == Split::none && words.size() > 1 ? split_of_word(words[words.size() - 2]) : last;
}

/// A file's split, and the folders that tell its configuration: those above the split.
struct SplitLabel {
  Split split = Split::none;
  fs::path configuration;
};

SplitLabel place_of(const fs::path& file) {
  SplitLabel place{split_of_name(file.filename()), {}};
  fs::path above;
  for (const fs::path& folder : file.parent_path()) {
    const Split split = split_of_word(folder.string());
    if (split != Split::none) {
      if (place.split == Split::none || place.split == Split::train) place.split = split;
      place.configuration = above;
      return place;
    }
    above /= folder;
  }
  place.configuration = above;
  return place;
}

}  // namespace

DataSplits find_data_splits(const fs::path& folder, const std::vector<fs::path>& files, bool are_json_lines) {
  DataSplits splits;
  bool has_train = false;
  std::set<std::string> configurations;
  for (const fs::path& file : files) {
    const SplitLabel place = place_of(file.lexically_relative(folder));
    (place.split == Split::validation ? splits.validation
     : place.split == Split::test     ? splits.rest
                                      : splits.train)
        .push_back(file);
    has_train = has_train || place.split == Split::train;
    if (place.split == Split::train)
      configurations.insert(place.configuration.empty() ? "." : place.configuration.string());
  }
  if (!are_json_lines && !has_train) return {files, {}, {}};
  if (are_json_lines && configurations.size() > 1)
    throw Error(ExitStatus::data, folder.string() + " has the configurations " + *configurations.begin() + " and " +
                                      *std::next(configurations.begin()) + "; name the folder of one");
  if (!splits.train.empty()) return splits;
  if (!splits.validation.empty() && !splits.rest.empty())
    throw Error(ExitStatus::data, folder.string() + " has splits for validation and for tests, such as " +
                                      splits.validation[0].filename().string() + " and " +
                                      splits.rest[0].filename().string() +
                                      ", and none for training; name the file or folder to train on");
  return {files, {}, {}};
}

}  // namespace wmtp
