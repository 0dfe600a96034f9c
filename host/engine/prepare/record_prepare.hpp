// Preparation of records: read, put into the template and tokenised once, kept by content hash like text (prepare.hpp).
//
// `cache/<hash>/` holds tokenizer.model (bpe), records.ids, records.index (records.hpp) and prepared.json with the
// counts. The hash is of the format's version, the tokenizer, the template, train.sequence_length, what is held out,
// which fields are needed, and all files. Which records are drawn, and how often, is decided when they are opened
// (sources.hpp).
//
// A record is the prompt's ids, the output's ids and end_of_text. One longer than train.sequence_length is left out; so
// is one of a problem that validation or another experiment holds out. A "bpe" without files of its own is trained on
// the prompts and outputs of all records of data.files, held out or not, so that experiments over the same files share
// it. [data.arithmetic] is written to cache/arithmetic-<hash>.jsonl and then read like any file.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/documents/documents.hpp"
#include "core/experiment/experiment.hpp"

namespace wmtp {

/// Builds what is missing, and tells how many records there are and how many are left out. [rank 0]
/// Error(data) with every mistake of the files, or when no record is left to train on.
void prepare_records(const Experiment& experiment, const std::filesystem::path& cache,
                     const std::function<void(const std::string&)>& say);

/// A tokenizer of `config.vocab_size` pieces into `model` unless it is there. `text`: makes the text to train on.
void make_tokenizer(const TokenizerConfig& config, const std::filesystem::path& model,
                    const std::function<std::vector<TextPart>()>& text,
                    const std::function<void(const std::string&)>& say);

}  // namespace wmtp
