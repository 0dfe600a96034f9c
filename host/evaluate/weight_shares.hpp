// Which tokens a weighting picks: shares of tokens and of weight by head and by kind of token, and what two weightings
// have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/engine_requests.hpp"

namespace wmtp {

/// By the text that a token adds, without its leading white space. A word consists of letters, '_', and bytes beyond
/// ASCII; a digit within one is a digit.
enum class TokenTextKind { word_start, inside_word, digits, punctuation, white_space, special };
template <>
inline constexpr auto names_of<TokenTextKind> =
    std::array{"word start", "inside a word", "digits", "punctuation", "white space", "special"};

/// `before`: the text of the token before it; "" at the beginning of a sequence.
TokenTextKind text_kind_of(const std::string& text, const std::string& before);

/// A group of predicted tokens: all, those of a head, or those of a kind. n: their number, w the sizes of their weights
/// without signs, l their losses. A share of nothing, or a mean over nothing, is nullopt.
struct WeightShare {
  std::string group;                      ///< "all", "head 1", "digits"
  int64_t tokens = 0;                     ///< n
  std::optional<double> token_share;      ///< n / n of all
  std::optional<double> weight_share;     ///< sum w / sum w of all
  std::optional<double> effective_share;  ///< (sum w)^2 / (n sum w^2): 1 for equal weights
  std::optional<double> zero_share;       ///< share of tokens of weight 0
  std::optional<double> loss;             ///< mean l
  std::optional<double> weighted_loss;    ///< sum w l / sum w
  std::optional<double> zero_loss;        ///< mean l of the tokens of weight 0
};

/// All tokens, then each head's, then those of each kind that occurs, of all heads together.
std::vector<WeightShare> weight_shares(const WeighedTokens& tokens);

/// What two weightings of the same tokens have in common; a token that only one of them predicts has weight 0 in the
/// other. nullopt where it is undefined: without weight, or with equal weights only.
struct WeightOverlap {
  std::string group;                       ///< "all", "head 1"
  std::optional<double> common;            ///< sum min(a, b), both scaled to sum 1; nullopt with negative weights
  std::optional<double> rank_correlation;  ///< Spearman's, equal weights with their mean rank
};
std::vector<WeightOverlap> weight_overlaps(const WeighedTokens& a, const WeighedTokens& b);

}  // namespace wmtp
