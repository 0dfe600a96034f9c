// Preparation of text: tokenizer and token files, made once and kept by content hash. (Records: record_prepare.hpp.)
//
// `<database's folder>/cache/<hash>/` holds tokenizer.model (bpe), train.bin, validation.bin and prepared.json. The
// hash is of the format's version, the tokenizer's settings and files, and the train and validation files, contents and
// names, and how they are split into documents.
//   1. the tokenizer is trained into cache/tokenizer-<hash>.model, renamed when whole: experiments that name the same
//      tokenizer share it, whatever they train on
//   2. everything is written and synced in cache/<hash>.tmp-<process>/, prepared.json last
//   3. that folder is renamed to cache/<hash>/; where another process was faster, its folder stands and ours is removed
// A crash leaves a .tmp- folder that nobody reads. A folder whose files have not the sizes that prepared.json says is
// made anew by prepare_data, and refused by open_prepared.
//
// Documents (documents.hpp) are joined, each followed by end_of_text. A file that is not UTF-8 is taken as bytes by
// "byte", and skipped with a warning by "bpe". Knows no LibTorch; in the engine library because of SentencePiece.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "core/corpus/token_windows.hpp"
#include "core/experiment/experiment.hpp"
#include "core/records/records.hpp"
#include "core/tokenizer/tokenizer.hpp"

namespace wmtp {

struct Prepared {
  std::filesystem::path folder;  ///< empty for "tokens" and "random"
  std::string identity;          ///< what each window or record holds follows from this; empty when nothing can be kept
  std::unique_ptr<Tokenizer> tokenizer;      ///< null for "tokens" and "random"
  std::unique_ptr<TokenWindows> train;       ///< null for "records"
  std::unique_ptr<TokenWindows> validation;  ///< null when there is none
  std::unique_ptr<Records> records;          ///< of "records" only: those to train on and those held out
};

/// Builds what is missing. [rank 0; others wait, then call open_prepared]
/// `say` gets one line for each long part ("training a tokenizer of 4,096 pieces on 1,020 files"), and one that tells
/// the tokens of both parts where a share of each file is held out.
void prepare_data(const Experiment& experiment, const std::filesystem::path& cache,
                  const std::function<void(const std::string&)>& say);

/// Opens what prepare_data built. [any rank] Error(data) when it is missing or damaged, has fewer ids than one window,
/// or has too few windows, naming how many there are and how many are wanted: "text" must fill one step over
/// `world_size` ranks and may then be gone round, shuffled anew each time; "tokens" must fill the whole run unless
/// `epochs` is given. How many records are wanted is checked where they are drawn (sources.hpp).
Prepared open_prepared(const Experiment& experiment, const std::filesystem::path& cache, int64_t world_size);

}  // namespace wmtp
