// Prepares text: tokenizer and token files, built once and cached by content hash. (Records: record_prepare.hpp.)
//
// `<database's folder>/cache/<hash>/` contains tokenizer.model (bpe), train.bin, validation.bin and prepared.json. The
// hash covers the format's version, the tokenizer's settings and files, the names and contents of the training and
// validation files, and how they are split into documents.
//   1. the tokenizer is trained into cache/tokenizer-<hash>.model and renamed when complete; experiments with the same
//      tokenizer settings share it, whatever their training data
//   2. everything is written and synced in a draft of cache/<hash> (io/draft.hpp), prepared.json last
//   3. that folder is renamed to cache/<hash>/; if another process was faster, its folder is kept and this one deleted
// A crash leaves a draft that is never read. If file sizes differ from prepared.json, prepare_data rebuilds the
// folder and open_prepared refuses it.
//
// Documents (data/text/documents.hpp) are concatenated, each followed by end_of_text. "byte" reads a file that is
// not UTF-8 as bytes; "bpe" skips it with a warning. Part of the engine library because it needs SentencePiece.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "data/records/records.hpp"
#include "data/tokens/token_windows.hpp"
#include "experiment/experiment.hpp"
#include "tokenizer/tokenizer.hpp"

namespace wmtp {

struct Prepared {
  std::filesystem::path folder;               ///< empty for "random", and "tokens" without [data.tokenizer]
  std::filesystem::path weights_folder = {};  ///< of records whose weights are read
  // Identify the content of every window and record, those of validation apart; empty if it cannot be cached.
  std::string identity, held_out_identity;
  std::unique_ptr<Tokenizer> tokenizer;      ///< null where `folder` is empty
  std::unique_ptr<TokenWindows> train;       ///< null for "records"
  std::unique_ptr<TokenWindows> validation;  ///< null if there is none
  std::unique_ptr<Records> records;          ///< for "records" only: training and held-out ones
  std::string prompt_template = {};          ///< of all records; "" if their formats have different ones
  int64_t answer_end = -1;                   ///< the special token that this template writes after an answer; -1: none
};

/// Builds missing files. [rank 0; the others wait, then call open_prepared]
/// `log` gets one line per long-running part ("training a tokenizer of 4,096 pieces on 1,020 files"), and one with the
/// tokens of both parts if a share of each file is held out. `weights`: also those of the records.
void prepare_data(const Experiment& experiment, const std::filesystem::path& cache,
                  const std::function<void(const std::string&)>& log, bool weights);

/// Opens the files built by prepare_data. [any rank] Error(data) if they are missing or damaged, have fewer ids than
/// one window, or too few windows (gives both numbers): "text" must fill one step over `world_size` ranks and is then
/// repeated, reshuffled in each epoch; "tokens" must fill the whole run unless `epochs` is set. The number of records
/// is checked where they are drawn (data/torch/sources.hpp).
Prepared open_prepared(const Experiment& experiment, const std::filesystem::path& cache, int64_t world_size,
                       bool weights);

}  // namespace wmtp
