// A text with the weights of its tokens below each line, one row for each weighting, so that rows can be compared.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace wmtp {

struct WeightText {
  std::vector<std::string> names;           ///< of the weightings
  std::vector<std::string> tokens;          ///< their texts: any bytes
  std::vector<std::vector<float>> weights;  ///< by weighting and token; NaN: none
};

/// A character stands for the weight of the token above it, compared with that weighting's mean in this text: ' ' for
/// 0, then '░' below half of the mean, '▒' below the mean, '▓' below its double, '█' from there on, '-' for a negative
/// one; '·' without a weight.
void print_weight_text(std::ostream& out, const WeightText& text);

}  // namespace wmtp
