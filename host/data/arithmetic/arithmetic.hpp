// Generated problems: expressions over F_7[X]/(X^5) with right and wrong answers, as JSONL records. The arithmetic task
// of Gloeckle et al. (arXiv 2404.19737, section 4.2), which trains models on expressions with few operations and tests
// them on longer ones.
//
//   {"instruction":"(31400*20010)+-11111","input":"","output":"...\n#62105","task_id":"arithmetic-0/17",
//    "is_correct":true,"metadata":{"difficulty":3,"source":"arithmetic"}}
//
// `difficulty` is the number of operations, uniform in min_operations..max_operations; `output` is a derivation
// (derivation.hpp); a wrong one has one mistake and a wrong answer. All answers to a problem have the same length.
// Expressions are unique, and so are the answers to one expression.
#pragma once

#include <filesystem>

#include "experiment/experiment.hpp"

namespace wmtp {

/// Writes the file atomically, replacing an existing one. The bytes depend only on `config`; a shorter file is a prefix
/// of a longer one; memory use is constant. Error(usage) if there are fewer expressions than problems, no answers are
/// requested, or min_operations is above max_operations; Error(storage) if the file cannot be written.
void write_arithmetic(const ArithmeticConfig& config, const std::filesystem::path& jsonl);

}  // namespace wmtp
