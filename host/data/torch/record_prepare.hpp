// Prepares records: formatted with the template and tokenised once, cached by content hash like text (prepare.hpp).
//
// `cache/<hash>/` contains tokenizer.model (bpe), records.ids, records.index and records.turns
// (data/records/records.hpp) and prepared.json with the counts. The hash covers the format's version, the tokenizer,
// the template, train.sequence_length, what is held out, the required fields, and all files. Records are selected and
// ordered when they are opened (data/torch/sources.hpp).
//
// record_encoder.hpp makes the ids. Records longer than train.sequence_length are excluded or truncated
// (data.too_long); those of problems held out by validation or another experiment are excluded. A "bpe" without its own
// files is trained on the prompts and outputs of all records of data.files, held out or not, so that experiments on the
// same files share it. [data.arithmetic] is written to cache/arithmetic-<hash>.jsonl and then read like any file.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "experiment/experiment.hpp"

namespace wmtp {

/// Builds missing files, and logs the number of records and of excluded records. [rank 0]
/// Error(data) with all mistakes of the files, or if no record is left for training. `weights`: also builds a folder
/// with records.weights, the fp32 weights of all ids; Error(data) if no record has any.
void prepare_records(const Experiment& experiment, const std::filesystem::path& cache,
                     const std::function<void(const std::string&)>& log, bool weights = false);

}  // namespace wmtp
