// A study in the log: what was planned of it, how it changed after its first run, and what its runs show.
#pragma once

#include <filesystem>
#include <string>

#include "base/json.hpp"
#include "study/study.hpp"

namespace wmtp {

/// Adds a row of a plan. `estimate`: an object. Error(storage).
void store_plan(const std::filesystem::path& database, const std::string& study, const Json& definition,
                const Json& estimate);

/// When the study's first run was started, as in `runs`; "" if none was, or without a log. Error(usage) if the study of
/// this name that was begun has none of the definition's members, and so is another one.
std::string begun_at(const std::filesystem::path& database, const std::string& study, const Json& definition);

/// Notes that runs of this definition begin, with a row if there is none. Returns what counts from now on, the first
/// definition that was begun: {"planned_at", "begun_at", "estimate", "changes": [how this definition differs from it]}.
/// Error(storage), and Error(usage) as of begun_at.
Json begin_study(const std::filesystem::path& database, const std::string& study, const Json& definition);

/// Keeps `report` (report_json) without its results, and the figures, in place of what the log has of the study.
/// Error(storage).
void store_report(const std::filesystem::path& database, OrderedJson report, const std::string& curves_svg,
                  const std::string& differences_svg);

}  // namespace wmtp
