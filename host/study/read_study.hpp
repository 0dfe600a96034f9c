// Reads the file of a study.
#pragma once

#include <filesystem>

#include "experiment/load/source_texts.hpp"
#include "study/study.hpp"

namespace wmtp {

/// Whether the file has a table [study]. False also for a file that is no TOML. Throws the errors of read_source.
bool is_study(const std::filesystem::path& file, SourceTexts& texts);

/// Error(usage) with all mistakes of the file, each with its line and column; of the experiments only load_members
/// knows. Relative paths in changes are those of the study's folder.
Study read_study(const std::filesystem::path& file, SourceTexts& texts);

}  // namespace wmtp
