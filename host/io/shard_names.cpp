#include "io/shard_names.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view digits = "0123456789";
constexpr size_t max_digits = 6;  // a set of a million files

constexpr std::array separators{"-of-", "_of_", ".of."};

/// A name "BEFORE NUMBER -of- TOTAL AFTER", such as "train-", "00000", "-of-", "00003", ".parquet".
struct ShardName {
  std::string before, number, of, total, after;
};

std::optional<ShardName> shard_name_of(const std::string& name, const std::string& of) {
  for (size_t at = name.rfind(of); at != std::string::npos && at > 0; at = name.rfind(of, at - 1)) {
    const size_t before = name.find_last_not_of(digits, at - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1, total = at + of.size();
    const size_t end = std::min(name.find_first_not_of(digits, total), name.size());
    if (begin == at || total == end || at - begin > end - total || end - total > max_digits) continue;
    ShardName found{name.substr(0, begin), name.substr(begin, at - begin), of, name.substr(total, end - total),
                    name.substr(end)};
    if (*parsed_number(found.number) <= *parsed_number(found.total)) return found;
  }
  return std::nullopt;
}

std::optional<ShardName> shard_name_of(const std::string& name) {
  for (const char* of : separators)
    if (auto found = shard_name_of(name, of)) return found;
  return std::nullopt;
}

}  // namespace

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
  std::vector<fs::path> missing;
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
