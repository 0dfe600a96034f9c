#include "core/documents/json_lines.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

#include "base/text.hpp"

namespace wmtp {

namespace {

using Json = nlohmann::json;

constexpr size_t piece_bytes = 1 << 20;

}  // namespace

bool for_each_line(const std::filesystem::path& file, size_t longest,
                   const std::function<bool(int64_t, std::string_view, size_t)>& take) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> piece(piece_bytes);
  std::string line;
  size_t bytes = 0;
  int64_t number = 1;
  while (in) {
    in.read(piece.data(), piece_bytes);
    std::string_view rest(piece.data(), static_cast<size_t>(in.gcount()));
    while (!rest.empty()) {
      const size_t newline = rest.find('\n'), part = std::min(newline, rest.size());
      bytes += part;
      if (bytes <= longest)
        line.append(rest.substr(0, part));
      else
        std::string().swap(line);
      rest.remove_prefix(std::min(part + 1, rest.size()));
      if (newline == std::string_view::npos) break;
      if (!take(number++, line, bytes)) return true;
      line.clear();
      bytes = 0;
    }
  }
  if (!in.eof() || in.bad()) return false;
  if (bytes > 0) take(number, line, bytes);
  return true;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

size_t column_of(std::string_view line, size_t offset) {
  const std::string_view before = line.substr(0, offset);
  return 1 + size_t(std::count_if(before.begin(), before.end(), [](char byte) { return !is_continuation(byte); }));
}

Json parse_json_line(std::string_view line, const std::function<bool(const std::string&)>& wants) {
  std::set<std::string> seen;
  return Json::parse(line.begin(), line.end(), [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > deepest_json) throw TooDeep();
    if (event != Json::parse_event_t::key || depth != 1) return true;
    const auto& name = value.get_ref<const std::string&>();
    if (!wants(name)) return false;
    if (!seen.insert(name).second) throw DoubledField{name};
    return true;
  });
}

}  // namespace wmtp
