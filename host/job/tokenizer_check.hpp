// Whether weights have the tokenizer of the data. The sizes of vocabularies do not tell: many have 32000 ids.
#pragma once

#include <filesystem>
#include <string>

#include "experiment/experiment.hpp"

namespace wmtp {

/// "its tokenizer FILE is not the data's, FILE: id 0 is "a" there and "b" here; " and what to do; "" if both give ids
/// the same meaning (tokenizer/vocabulary_difference.hpp), or one of them has no tokenizer. `weights`: a file or a
/// folder. `prepared`: the folder of the prepared data, which has a tokenizer of kind "bpe"; empty before they are
/// prepared. Error(data) for a malformed params.json.
std::string tokenizer_difference(const std::filesystem::path& weights, const Experiment& experiment,
                                 const std::filesystem::path& prepared);

/// Error(data) if there is such a difference: the outputs of a frozen model would be of other tokens.
void check_frozen_tokenizer(const std::string& table, const std::filesystem::path& weights,
                            const Experiment& experiment, const std::filesystem::path& prepared);

}  // namespace wmtp
