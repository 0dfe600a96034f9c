// Logging of `wmtp-host eval RUN`: the suite, the generation settings and each answer with its verdict; or the texts
// and each head's loss on them.
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
    std::string message, answer;  ///< any bytes; invalid UTF-8 is replaced in the log
  };
  std::vector<Answer> answers{};
  std::string run_key{};  ///< as of read_run_key(), before the evaluation
};

struct LoggedTextLosses {
  int64_t run_id = 0;
  std::vector<std::filesystem::path> texts{};
  int64_t stride = 0;  ///< 0: the window's length
  struct Head {
    int64_t tokens = 0;
    double loss = 0;  ///< nats
    int64_t bytes = 0;
  };
  std::vector<Head> heads{};  ///< in order
  std::string run_key{};      ///< as above
};

/// Logs everything in one transaction and returns its id. Error(storage), also if the log was replaced; Error(data) for
/// unreadable texts.
int64_t log_evaluation(const std::filesystem::path& database, const LoggedEvaluation& evaluation);
int64_t log_text_losses(const std::filesystem::path& database, const LoggedTextLosses& losses);

}  // namespace wmtp
