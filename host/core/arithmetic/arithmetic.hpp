// Problems of our own making: expressions over F_7[X]/(X^5) with right and wrong answers, as JSONL records. The
// arithmetic task of Gloeckle et al. (arXiv 2404.19737, section 4.2), where models are trained on expressions of few
// operations and asked for more.
//
//   {"instruction":"(31400*20010)+-11111","input":"","output":"...\n#62105","task_id":"arithmetic-0/17",
//    "is_correct":true,"metadata":{"difficulty":3,"source":"arithmetic"}}
//
// `difficulty` is the number of operations, uniform in min_operations..max_operations; `output` is a derivation
// (derivation.hpp), of which the wrong ones have one mistake and another answer. All answers to a problem are of the
// same length. No expression comes twice, and no answer twice for an expression. Knows no LibTorch.
#pragma once

#include <filesystem>

#include "core/experiment/experiment.hpp"

namespace wmtp {

/// The file, whole or not at all: it is written beside its place and renamed, and replaces what is there. The same
/// bytes on every machine for the same `config`, and the first lines of a longer file; memory does not grow with it.
/// Error(usage) when there are fewer expressions than problems, no answers are wanted, or min_operations is above
/// max_operations; Error(storage) when it cannot be written.
void write_arithmetic(const ArithmeticConfig& config, const std::filesystem::path& jsonl);

}  // namespace wmtp
