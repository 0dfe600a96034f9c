#include "data/records/record_weights.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "data/text/json_lines.hpp"

namespace wmtp {
namespace {

using Refuse = std::function<void(const std::string& field, const OrderedJson* found, const std::string& wanted)>;

class Reader {
 public:
  Reader(const std::string& text, const std::string& place, const Refuse& refuse) : place_(place), refuse_(refuse) {
    for (size_t byte = 0; byte < text.size(); ++byte)
      if ((uint8_t(text[byte]) & 0xC0) != 0x80) bytes_.push_back(byte);
    bytes_.push_back(text.size());
  }

  std::optional<float> weight(const std::string& field, const OrderedJson* found) const {
    if (found && found->is_number()) {
      const double number = found->get<double>();
      if (number >= 0 && number <= double(std::numeric_limits<float>::max())) return float(number);
    }
    refuse_(place_ + field, found, "a number that is not negative, of 32-bit floating point");
    return std::nullopt;
  }

  std::vector<AnswerWeights::Span> spans(const OrderedJson& list) {
    if (!list.is_array()) {
      refuse_(place_ + "weights", &list, R"(a list of {"start", "end", "weight"})");
      return {};
    }
    std::vector<Found> found;
    for (size_t i = 0; i < list.size(); ++i)
      if (const auto one = span("weights[" + std::to_string(i) + "]", list[i])) found.push_back(*one);
    std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.first < b.first; });
    std::vector<AnswerWeights::Span> spans;
    for (size_t i = 0; i < found.size(); ++i) {
      if (i > 0 && found[i].first < found[i - 1].end)
        refuse_(place_ + found[i].name + ".start", found[i].start,
                "at least " + std::to_string(found[i - 1].end) + ", the end of " + found[i - 1].name);
      spans.push_back({bytes_[found[i].first], bytes_[found[i].end], found[i].weight});
    }
    return spans;
  }

 private:
  struct Found {
    std::string name;
    const OrderedJson* start;
    size_t first, end;  ///< characters
    float weight;
  };

  std::optional<Found> span(const std::string& name, const OrderedJson& given) const {
    if (!given.is_object()) {
      refuse_(place_ + name, &given, R"({"start", "end", "weight"})");
      return std::nullopt;
    }
    const size_t length = bytes_.size() - 1;
    const auto of_answer = std::to_string(length) + ", the number of characters of the answer";
    const OrderedJson *start = find_field(given, "start"), *end = find_field(given, "end");
    const auto first = place_of(start, 0, length);
    if (!first) refuse_(place_ + name + ".start", start, "a whole number from 0 and below " + of_answer);
    const auto last = place_of(end, first ? *first + 1 : 1, length + 1);
    if (!last)
      refuse_(place_ + name + ".end", end,
              "a whole number above " + (first ? std::to_string(*first) : "start") + " and up to " + of_answer);
    const auto value = weight(name + ".weight", find_field(given, "weight"));
    if (!first || !last || !value) return std::nullopt;
    return Found{name, start, *first, *last, *value};
  }

  static std::optional<size_t> place_of(const OrderedJson* found, size_t least, size_t below) {
    if (!found || !found->is_number_integer()) return std::nullopt;
    if (!found->is_number_unsigned() && found->get<int64_t>() < 0) return std::nullopt;
    const auto number = found->get<uint64_t>();
    return number >= least && number < below ? std::optional(size_t(number)) : std::nullopt;
  }

  std::vector<size_t> bytes_;  ///< where each character begins, and the text ends
  const std::string& place_;
  const Refuse& refuse_;
};

}  // namespace

AnswerWeights read_weights(const GivenWeights& given, float others, const std::string& text, const std::string& place,
                           const Refuse& refuse) {
  Reader reader(text, place, refuse);
  AnswerWeights weights;
  weights.others = given.all ? reader.weight("weight", given.all).value_or(others) : others;
  if (given.spans) weights.spans = reader.spans(*given.spans);
  return weights;
}

}  // namespace wmtp
