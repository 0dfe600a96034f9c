// The source files of an experiment's text, and the cache folder of the prepared one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "data/tokens/corpus.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

inline constexpr int text_format_version = 3;

/// Determined by the experiment and the files' contents.
struct TextPlan {
  TextSplit split;
  std::filesystem::path folder;
  std::filesystem::path tokenizer;  ///< empty for "byte"
};

/// `cache`: folder of prepared data. Errors of split_text and text_content.
TextPlan text_plan(const Experiment& experiment, const std::filesystem::path& cache);

/// The number of windows to train on; nullopt if the text is not prepared in `cache`. Errors as above.
std::optional<int64_t> prepared_text_windows(const Experiment& experiment, const std::filesystem::path& cache);

}  // namespace wmtp
