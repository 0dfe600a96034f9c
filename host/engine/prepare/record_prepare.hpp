// Preparation of records: formatted with the template and tokenised once, cached by content hash like text
// (prepare.hpp).
//
// `cache/<hash>/` has tokenizer.model (bpe), records.ids, records.index (core/records/records.hpp) and prepared.json
// with the counts. The hash covers the format's version, the tokenizer, the template, train.sequence_length, what is
// held out, the required fields, and all files. Selection and order of records are decided when they are opened
// (engine/batches/sources.hpp).
//
// A record is the prompt's ids, the output's ids and end_of_text. Records longer than train.sequence_length are
// excluded, as are those of problems that validation or another experiment holds out. A "bpe" without its own files is
// trained on the prompts and outputs of all records of data.files, held out or not, so that experiments on the same
// files share it. [data.arithmetic] is written to cache/arithmetic-<hash>.jsonl and then read like any file.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/experiment/experiment.hpp"

namespace wmtp {

/// Builds missing files, and logs how many records there are and how many are excluded. [rank 0]
/// Error(data) with all mistakes of the files, or when no record is left to train on.
void prepare_records(const Experiment& experiment, const std::filesystem::path& cache,
                     const std::function<void(const std::string&)>& log);

}  // namespace wmtp
