// Generated problems: expressions over F_7[X]/(X^5) with right and wrong answers, as JSONL records. The arithmetic task
// of Gloeckle et al. (arXiv 2404.19737, section 4.2), where models are trained on expressions of few operations and
// tested on more.
//
//   {"instruction":"(31400*20010)+-11111","input":"","output":"...\n#62105","task_id":"arithmetic-0/17",
//    "is_correct":true,"metadata":{"difficulty":3,"source":"arithmetic"}}
//
// `difficulty` is the number of operations, uniform in min_operations..max_operations; `output` is a derivation
// (derivation.hpp); a wrong one has one mistake and another answer. All answers to a problem have the same length. No
// expression occurs twice, and no answer twice for an expression.
#pragma once

#include <filesystem>

#include "core/experiment/experiment.hpp"

namespace wmtp {

/// Writes the file, complete or not at all, and replaces an existing one. The bytes depend on `config` only, and a
/// shorter file is a prefix of a longer one; memory does not grow with the file. Error(usage) when there are fewer
/// expressions than problems, no answers are wanted, or min_operations is above max_operations; Error(storage) when it
/// cannot be written.
void write_arithmetic(const ArithmeticConfig& config, const std::filesystem::path& jsonl);

}  // namespace wmtp
