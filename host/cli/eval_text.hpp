// `eval RUN --text FILE`: what each head loses on a text. Of a run of the log, it goes into the log.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// A table on stdout: head, its targets, the mean loss in nats, and its exponential.
int evaluate_text(const std::string& run, const std::vector<std::string>& texts, bool json,
                  const std::filesystem::path& database);

}  // namespace wmtp
