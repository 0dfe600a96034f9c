// `eval RUN --text FILE`: the loss of each head on texts, which is logged if RUN is in the run log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// Prints a table: head, number of targets, mean loss in nats, perplexity, bytes of the targets' text, loss in bits per
/// byte. `stride`: as in PerplexityRequest.
int evaluate_text(const std::string& run, const std::vector<std::string>& texts, int64_t stride, bool json,
                  const std::filesystem::path& database);

}  // namespace wmtp
