// `eval RUN --text FILE`: what each head loses on a text. Of a run of the log, it goes into the log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// A table on stdout: head, its targets, the mean loss in nats, its exponential, the bytes that the targets stand for,
/// and the loss in bits per byte. `stride`: as in PerplexityRequest.
int evaluate_text(const std::string& run, const std::vector<std::string>& texts, int64_t stride, bool json,
                  const std::filesystem::path& database);

}  // namespace wmtp
