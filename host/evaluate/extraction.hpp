// Extraction of the number in an answer to an arithmetic question, as lm-evaluation-harness does for GSM8K
// (tasks/gsm8k/gsm8k.yaml): "strict" is the number after the first "#### ", "flexible" the last substring that looks
// like a number. The comparison ignores case, commas, dollar signs, a final full stop and all text up to the last "####
// ". And of the program in an answer in Markdown.
#pragma once

#include <string>
#include <utility>

namespace wmtp {

enum class Extraction { strict, flexible };
inline constexpr std::pair<const char*, Extraction> extractions[] = {{"strict", Extraction::strict},
                                                                     {"flexible", Extraction::flexible}};

/// "[invalid]" if `answer` contains none.
std::string extracted_number(const std::string& answer, Extraction extraction);

std::string normalized_number(std::string text);

/// The first block of code (between lines that begin with ```) of an answer, to its end if it is not closed; the whole
/// answer if it has none.
std::string extracted_program(const std::string& answer);

}  // namespace wmtp
