#include "report/weight_text.hpp"

#include <algorithm>
#include <cmath>

#include "base/utf8.hpp"

namespace wmtp {
namespace {

constexpr size_t line_characters = 100;

double mean_of(const std::vector<float>& weights) {
  double sum = 0;
  int64_t count = 0;
  for (const float weight : weights)
    if (!std::isnan(weight)) sum += weight, ++count;
  return count > 0 ? sum / double(count) : 0;
}

const char* shade_of(float weight, double mean) {
  if (std::isnan(weight)) return "·";
  if (weight == 0) return " ";
  if (weight < 0) return "-";
  return weight < mean / 2 ? "░" : weight < mean ? "▒" : weight < 2 * mean ? "▓" : "█";
}

/// The characters of a token; a control character other than a line's end is a space, and an invalid byte a '?'.
std::vector<std::string> characters_of(const std::string& token) {
  std::vector<std::string> characters;
  for (const char c : repaired_utf8(token)) {
    const bool continues = (uint8_t(c) & 0xC0) == 0x80;
    if (continues && !characters.empty())
      characters.back() += c;
    else
      characters.emplace_back(1, c != '\n' && uint8_t(c) < 0x20 ? ' ' : c);
  }
  return characters;
}

}  // namespace

void print_weight_text(std::ostream& out, const WeightText& text) {
  size_t margin = 0;
  for (const std::string& name : text.names) margin = std::max(margin, name.size() + 2);
  std::vector<double> means;
  for (const auto& weights : text.weights) means.push_back(mean_of(weights));

  std::string line;
  std::vector<std::string> shades(text.names.size());
  size_t length = 0;
  const auto end_line = [&] {
    if (length == 0) return;
    out << std::string(margin, ' ') << line << '\n';
    for (size_t i = 0; i < shades.size(); ++i)
      out << text.names[i] << std::string(margin - text.names[i].size(), ' ') << shades[i] << '\n';
    line.clear();
    for (std::string& shade : shades) shade.clear();
    length = 0;
  };
  for (size_t token = 0; token < text.tokens.size(); ++token)
    for (const std::string& character : characters_of(text.tokens[token])) {
      const bool ends = character == "\n";
      line += ends ? "↵" : character;
      for (size_t i = 0; i < shades.size(); ++i) shades[i] += shade_of(text.weights[i][token], means[i]);
      if (++length == line_characters || ends) end_line();
    }
  end_line();
}

}  // namespace wmtp
