#include "evaluate/extraction.hpp"

#include <algorithm>

namespace wmtp {
namespace {

const std::string mark = "#### ", digits = "0123456789", of_strict = digits + ".,", of_flexible = of_strict + "$";

/// Number of consecutive characters from `at` on that are in `set`.
size_t run_of(const std::string& text, size_t at, const std::string& set) {
  return std::min(text.find_first_not_of(set, at), text.size()) - at;
}

/// The group in the first match of #### (-?[0-9.,]+).
std::string strict_number(const std::string& text) {
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const size_t begin = at + mark.size(), sign = text.compare(begin, 1, "-") == 0;
    if (const size_t length = run_of(text, begin + sign, of_strict)) return text.substr(begin, sign + length);
  }
  return "";
}

/// The last match of (-?[$0-9.,]{2,})|(-?[0-9]+).
std::string flexible_number(const std::string& text) {
  std::string last;
  for (size_t at = 0; at < text.size();) {
    const size_t sign = text[at] == '-', length = run_of(text, at + sign, of_flexible);
    if (length >= 2 || (length == 1 && run_of(text, at + sign, digits) == 1)) {
      last = text.substr(at, sign + length);
      at += sign + length;
    } else {
      ++at;
    }
  }
  return last;
}

}  // namespace

std::string extracted_number(const std::string& answer, Extraction extraction) {
  const std::string found = extraction == Extraction::strict ? strict_number(answer) : flexible_number(answer);
  return found.empty() ? "[invalid]" : found;
}

std::string normalized_number(std::string text) {
  std::erase_if(text, [](char c) { return c == ',' || c == '$'; });
  if (const size_t at = text.rfind(mark); at != std::string::npos) text.erase(0, at + mark.size());
  const size_t end = text.size() - text.ends_with('\n');
  if (end > 0 && text[end - 1] == '.') text.erase(end - 1, 1);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return text;
}

std::string extracted_program(const std::string& answer) {
  const auto fence_from = [&](size_t at) {
    for (; at < answer.size(); at = std::min(answer.find('\n', at), answer.size() - 1) + 1)
      if (answer.compare(at, 3, "```") == 0) return at;
    return std::string::npos;
  };
  const size_t opening = fence_from(0);
  if (opening == std::string::npos) return answer;
  const size_t begin = std::min(answer.find('\n', opening), answer.size() - 1) + 1;
  return answer.substr(begin, std::min(fence_from(begin), answer.size()) - begin);
}

}  // namespace wmtp
