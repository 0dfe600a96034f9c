#include "evaluate/weight_shares.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <numeric>

namespace wmtp {
namespace {

bool is_space(char c) { return std::isspace(uint8_t(c)) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_of_word(char c) { return std::isalpha(uint8_t(c)) != 0 || c == '_' || uint8_t(c) >= 0x80; }

std::optional<double> quotient(double numerator, double denominator) {
  return denominator == 0 ? std::nullopt : std::optional(numerator / denominator);
}

/// The sums over a group of tokens.
struct Sums {
  int64_t tokens = 0, zeros = 0;
  double weight = 0, square = 0, loss = 0, weighted = 0, zero_loss = 0;

  void add(double signed_weight, double l) {
    const double w = std::abs(signed_weight);
    ++tokens;
    weight += w;
    square += w * w;
    loss += l;
    weighted += w * l;
    zeros += w == 0;
    zero_loss += w == 0 ? l : 0;
  }

  WeightShare share_of(const Sums& all, const std::string& group) const {
    const auto n = double(tokens);
    return {group,
            tokens,
            quotient(n, double(all.tokens)),
            quotient(weight, all.weight),
            quotient(weight * weight, n * square),
            quotient(double(zeros), n),
            quotient(loss, n),
            quotient(weighted, weight),
            quotient(zero_loss, double(zeros))};
  }
};

std::string head_name(int64_t head) { return "head " + std::to_string(head); }

/// Ranks from 1; equal values have their mean rank.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = double(begin + 1 + end) / 2;
    begin = end;
  }
  return ranks;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

/// Pearson's; nullopt if one of them is constant.
std::optional<double> correlation(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty()) return std::nullopt;
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double product = 0, square_a = 0, square_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += (a[i] - mean_a) * (b[i] - mean_b);
    square_a += (a[i] - mean_a) * (a[i] - mean_a);
    square_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return quotient(product, std::sqrt(square_a * square_b));
}

std::optional<double> common_weight(const std::vector<double>& a, const std::vector<double>& b) {
  const auto is_negative = [](double weight) { return weight < 0; };
  const double sum_a = std::accumulate(a.begin(), a.end(), 0.0), sum_b = std::accumulate(b.begin(), b.end(), 0.0);
  if (sum_a == 0 || sum_b == 0 || std::ranges::any_of(a, is_negative) || std::ranges::any_of(b, is_negative))
    return std::nullopt;
  double common = 0;
  for (size_t i = 0; i < a.size(); ++i) common += std::min(a[i] / sum_a, b[i] / sum_b);
  return common;
}

}  // namespace

TokenTextKind text_kind_of(const std::string& text, const std::string& before) {
  if (text.empty()) return TokenTextKind::special;
  const auto first = std::ranges::find_if_not(text, is_space);
  if (first == text.end()) return TokenTextKind::white_space;
  if (is_digit(*first)) return TokenTextKind::digits;
  if (!is_of_word(*first)) return TokenTextKind::punctuation;
  const bool goes_on =
      first == text.begin() && !before.empty() && (is_of_word(before.back()) || is_digit(before.back()));
  return goes_on ? TokenTextKind::inside_word : TokenTextKind::word_start;
}

std::vector<WeightShare> weight_shares(const WeighedTokens& tokens) {
  const auto heads = size_t(tokens.heads);
  const bool has_texts = std::ranges::any_of(tokens.text, [](const std::string& text) { return !text.empty(); });
  Sums all;
  std::vector<Sums> by_head(heads), by_kind(names_of<TokenTextKind>.size());
  for (size_t i = 0; i < tokens.token.size(); ++i) {
    const TokenTextKind kind = text_kind_of(tokens.text[i], tokens.position[i] > 0 ? tokens.text[i - 1] : "");
    for (size_t k = 0; k < heads; ++k) {
      const double weight = tokens.weight[i * heads + k], loss = tokens.loss[i * heads + k];
      if (std::isnan(weight)) continue;
      for (Sums* sums : {&all, &by_head[k], &by_kind[size_t(kind)]}) sums->add(weight, loss);
    }
  }
  std::vector<WeightShare> shares{all.share_of(all, "all")};
  for (size_t k = 0; k < heads; ++k) shares.push_back(by_head[k].share_of(all, head_name(int64_t(k) + 1)));
  for (size_t kind = 0; has_texts && kind < by_kind.size(); ++kind)
    if (by_kind[kind].tokens > 0) shares.push_back(by_kind[kind].share_of(all, names_of<TokenTextKind>[kind]));
  return shares;
}

std::vector<WeightOverlap> weight_overlaps(const WeighedTokens& a, const WeighedTokens& b) {
  std::vector<WeightOverlap> overlaps;
  const auto heads = size_t(a.heads);
  const auto add = [&](const std::string& group, size_t first, size_t end) {
    std::vector<double> of_a, of_b;
    for (size_t i = 0; i < a.weight.size(); ++i) {
      const bool in_a = !std::isnan(a.weight[i]), in_b = !std::isnan(b.weight[i]);
      if (i % heads < first || i % heads >= end || (!in_a && !in_b)) continue;
      of_a.push_back(in_a ? a.weight[i] : 0);
      of_b.push_back(in_b ? b.weight[i] : 0);
    }
    overlaps.push_back({group, common_weight(of_a, of_b), correlation(ranks_of(of_a), ranks_of(of_b))});
  };
  add("all", 0, heads);
  for (size_t k = 0; k < heads; ++k) add(head_name(int64_t(k) + 1), k, k + 1);
  return overlaps;
}

}  // namespace wmtp
