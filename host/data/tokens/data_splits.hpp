// The splits of a published data set, as the names of its files and folders tell them: train.jsonl, gsm8k_test.jsonl,
// val/00.txt.
#pragma once

#include <filesystem>
#include <vector>

namespace wmtp {

struct DataSplits {
  std::vector<std::filesystem::path> train;       ///< with the files whose names tell no split
  std::vector<std::filesystem::path> validation;  ///< validation, valid, val, dev
  std::vector<std::filesystem::path> rest;        ///< test, testing, eval, evaluation
};

/// Keeps the order of `files`, which are below `folder`. Data without a split for training is trained on as a whole,
/// and so are texts that may be no data set, such as programs and their tests: without names for training. Error(data)
/// if JSON lines have several splits and none is for training, or train splits of several configurations.
DataSplits find_data_splits(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& files,
                            bool are_json_lines);

}  // namespace wmtp
