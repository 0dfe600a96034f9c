// The number that an answer to a question of arithmetic comes to, found and compared as lm-evaluation-harness does for
// GSM8K (tasks/gsm8k/gsm8k.yaml): "strict" is what follows the first "#### ", "flexible" the last thing that looks like
// a number. Both sides are then compared without commas, dollar signs, a final full stop, what stands before their last
// "#### ", and the case of letters. Knows no LibTorch.
#pragma once

#include <string>

namespace wmtp {

enum class Extraction { strict, flexible };

/// "[invalid]" where `answer` has none.
std::string extracted_number(const std::string& answer, Extraction extraction);

std::string normalized_number(std::string text);

}  // namespace wmtp
