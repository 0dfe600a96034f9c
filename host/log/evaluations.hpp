// What `wmtp-host eval RUN` leaves in the log: the suite, how the answers were made, and each of them with its verdict.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

struct LoggedEvaluation {
  int64_t run_id = 0;
  std::string suite, suite_sha256;
  int64_t max_tokens = 0;
  double temperature = 0, top_p = 1;
  int64_t seed = 0;
  struct Answer {
    std::string task_id;
    int64_t sample = 1;
    std::string verdict;
    double seconds = 0;
    std::string told, answer;  ///< as they came: bytes that are no UTF-8 are replaced
  };
  std::vector<Answer> answers{};
};

/// All of it or nothing; its number. Error(storage).
int64_t log_evaluation(const std::filesystem::path& database, const LoggedEvaluation& evaluation);

}  // namespace wmtp
