#include "io/shard_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view digits = "0123456789";
constexpr size_t max_digits = 6;  // a set of a million files
constexpr size_t most_listed = 10, most_sets = 5;

constexpr std::array separators{"-of-", "_of_", ".of."};

/// A name "BEFORE NUMBER -of- TOTAL AFTER", such as "train-", "00000", "-of-", "00003", ".parquet"; AFTER has no hash.
struct ShardName {
  std::string before, number, of, total, after;
};

/// datasets writes a hash of the shard behind its total: "-0123456789abcdef.parquet".
std::string without_hash(std::string after) {
  constexpr size_t shortest = 4;
  const auto is_hex = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
  if (!after.starts_with('-')) return after;
  const auto end = std::find_if_not(after.begin() + 1, after.end(), is_hex);
  if (size_t(end - after.begin()) > shortest && (end == after.end() || *end == '.')) after.erase(after.begin(), end);
  return after;
}

std::optional<ShardName> shard_name_of(const std::string& name, const std::string& of) {
  for (size_t at = name.rfind(of); at != std::string::npos && at > 0; at = name.rfind(of, at - 1)) {
    const size_t before = name.find_last_not_of(digits, at - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1, total = at + of.size();
    const size_t end = std::min(name.find_first_not_of(digits, total), name.size());
    if (begin == at || total == end || at - begin > end - total || end - total > max_digits) continue;
    ShardName found{name.substr(0, begin), name.substr(begin, at - begin), of, name.substr(total, end - total),
                    without_hash(name.substr(end))};
    if (*parsed_number(found.number) <= *parsed_number(found.total)) return found;
  }
  return std::nullopt;
}

std::optional<ShardName> shard_name_of(const std::string& name) {
  for (const char* of : separators)
    if (auto found = shard_name_of(name, of)) return found;
  return std::nullopt;
}

/// A name "BEFORE NUMBER AFTER" without a total, such as "part-", "00000", ".txt.gz". AFTER is extensions, or the
/// identity and extensions that Spark writes.
struct NumberedName {
  std::string before, number, after;
};

std::optional<NumberedName> numbered_name_of(const std::string& name) {
  const size_t dot = name.find('.', name.starts_with('.') ? 1 : 0);
  const std::string stem = name.substr(0, dot), identity = "-00000000-0000-0000-0000-000000000000";
  size_t end = stem.size();  // of the number
  for (size_t at = stem.find('-'); at != stem.npos; at = stem.find('-', at + 1)) {
    const std::string rest = stem.substr(at, identity.size());
    const bool is_identity = std::ranges::equal(rest, identity, [](char c, char like) {
      return like == '-' ? c == '-' : std::isxdigit(static_cast<unsigned char>(c)) != 0;
    });
    if (is_identity) end = std::min(end, at);
  }
  const size_t before = end == 0 ? stem.npos : stem.find_last_not_of(digits, end - 1);
  const size_t begin = before == stem.npos ? 0 : before + 1;
  if (begin == end || end - begin > max_digits) return std::nullopt;
  // "2024-01-05" is a date.
  const bool follows_a_number = begin >= 2 && digits.find(stem[begin - 2]) != digits.npos;
  if (follows_a_number) return std::nullopt;
  std::string after = name.substr(end);
  for (const std::string packed : {".gz", ".zst"})
    if (after.ends_with(packed)) after.resize(after.size() - packed.size());
  return NumberedName{stem.substr(0, begin), stem.substr(begin, end - begin), after};
}

bool is_of_parts(std::string before) {
  while (!before.empty() && std::string_view("-_. ").find(before.back()) != std::string_view::npos) before.pop_back();
  for (char& c : before) c = char(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::any_of(std::array{"part", "shard", "chunk"},
                             [&](const char* word) { return before.ends_with(word); });
}

/// Of the names in the Hub's branch of Parquet files, which tell no total: CONFIGURATION/SPLIT/0000.parquet.
std::vector<fs::path> missing_of_the_hub(const std::vector<fs::path>& files) {
  constexpr size_t hub_digits = 4;
  std::map<fs::path, std::set<int64_t>> sets;
  for (const fs::path& file : files) {
    const std::string stem = file.stem().string();
    const bool is_number = stem.size() == hub_digits && stem.find_first_not_of(digits) == stem.npos;
    if (is_number && file.extension() == ".parquet") sets[file.parent_path()].insert(*parsed_number(stem));
  }
  std::vector<fs::path> missing;
  for (const auto& [folder, numbers] : sets)
    for (int64_t number = 0; numbers.contains(0) && number < *numbers.rbegin(); ++number)
      if (!numbers.contains(number))
        missing.push_back(folder / printed("%04lld.parquet", static_cast<long long>(number)));
  return missing;
}

std::string gap_text(const fs::path& folder, const std::vector<std::string>& missing) {
  std::string names;
  for (size_t i = 0; i < std::min(missing.size(), most_listed); ++i) names += (i > 0 ? ", " : "") + missing[i];
  return folder.string() + " has no " + names + (missing.size() > most_listed ? " and more" : "") +
         ", but files with lower and higher numbers; check that the download is complete";
}

}  // namespace

std::vector<std::string> gaps_in_numbers(const std::vector<fs::path>& files) {
  std::map<std::tuple<fs::path, std::string, std::string>, std::map<int64_t, std::string>> sets;
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    if (shard_name_of(name)) continue;
    if (const auto found = numbered_name_of(name))
      sets[{file.parent_path(), found->before, found->after}].emplace(*parsed_number(found->number), found->number);
  }
  std::vector<std::string> gaps;
  int64_t more = 0;
  for (const auto& [around, numbers] : sets) {
    const auto& [folder, before, after] = around;
    const auto& [first, first_text] = *numbers.begin();
    if (first > 1 || (first_text.size() < 2 && !is_of_parts(before))) continue;
    std::vector<std::string> missing;
    for (int64_t number = first; number < numbers.rbegin()->first && missing.size() <= most_listed; ++number) {
      const std::string name =
          before + printed("%0*lld", int(first_text.size()), static_cast<long long>(number)) + after;
      if (!numbers.contains(number) && !is_there(folder / name)) missing.push_back(name);
    }
    if (missing.empty()) continue;
    if (gaps.size() < most_sets)
      gaps.push_back(gap_text(folder, missing));
    else
      ++more;
  }
  if (more > 0)
    gaps.push_back(with_thousands(more) + (more == 1 ? " more set of files lacks" : " more sets of files lack") +
                   " numbers");
  return gaps;
}

std::vector<fs::path> missing_shards(const std::vector<fs::path>& files) {
  struct Set {
    fs::path folder;
    ShardName first;
    std::set<int64_t> numbers;
    size_t digits = max_digits;  ///< of the shortest number: as many as the total has, unless they are not padded
  };
  std::map<std::pair<fs::path, std::string>, Set> sets;  // by the text around the numbers
  for (const fs::path& file : files) {
    const auto name = shard_name_of(file.filename().string());
    if (!name) continue;
    Set& set = sets.try_emplace({file.parent_path() / (name->before + name->of), name->after},
                                Set{file.parent_path(), *name, {}})
                   .first->second;
    set.digits = std::min(set.digits, name->number.size());
    if (set.first.total != name->total)
      throw Error(ExitStatus::data, file.string() + ": found files of " + set.first.total + " and of " + name->total +
                                        " beside each other, two versions of a set; remove or exclude one");
    set.numbers.insert(*parsed_number(name->number));
  }
  std::vector<fs::path> missing = missing_of_the_hub(files);
  for (const auto& [around, set] : sets) {
    const int64_t total = *parsed_number(set.first.total);
    const int64_t first = !set.numbers.contains(0) && set.numbers.contains(total) ? 1 : 0;
    for (int64_t number = first; number < first + total; ++number)
      if (!set.numbers.contains(number))
        missing.push_back(set.folder /
                          (set.first.before + printed("%0*lld", int(set.digits), static_cast<long long>(number)) +
                           set.first.of + set.first.total + set.first.after));
  }
  return missing;
}

}  // namespace wmtp
