#include "log/evaluations.hpp"

#include "base/normal_path.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "log/database.hpp"
#include "log/maintenance.hpp"
#include "log/open_log.hpp"

namespace wmtp {
int64_t log_evaluation(const std::filesystem::path& path, const LoggedEvaluation& evaluation) {
  Database database = open_log_for_writing(path);
  Transaction transaction(database);
  check_run_key(database, evaluation.run_id, evaluation.run_key);
  Statement(database,
            "INSERT INTO evaluations (run_id, time_ns, suite, suite_sha256, max_tokens, temperature, top_p, seed) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")
      .run(evaluation.run_id, now_ns(), evaluation.suite, evaluation.suite_sha256, evaluation.max_tokens,
           evaluation.temperature, evaluation.top_p, evaluation.seed);
  const int64_t id = database.last_insert_id();
  Statement insert(database,
                   "INSERT INTO evaluation_answers (evaluation_id, task_id, sample, verdict, seconds, told, answer) "
                   "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)");
  for (const LoggedEvaluation::Answer& answer : evaluation.answers)
    insert.run(id, answer.task_id, answer.sample, answer.verdict, answer.seconds, repaired_utf8(answer.message),
               repaired_utf8(answer.answer));
  transaction.commit();
  return id;
}

int64_t log_text_losses(const std::filesystem::path& path, const LoggedTextLosses& losses) {
  std::string texts, sums;
  for (const auto& text : losses.texts) {
    const char* before = texts.empty() ? "" : "\n";
    texts += before + absolute_path(text).string();
    sums += before + file_sha256_hex(text);
  }
  Database database = open_log_for_writing(path);
  Transaction transaction(database);
  check_run_key(database, losses.run_id, losses.run_key);
  Statement(database, "INSERT INTO text_evaluations (run_id, time_ns, texts, texts_sha256) VALUES (?1, ?2, ?3, ?4)")
      .run(losses.run_id, now_ns(), repaired_utf8(texts), sums);
  const int64_t id = database.last_insert_id();
  if (losses.stride > 0)
    Statement(database, "INSERT INTO text_strides (evaluation_id, stride) VALUES (?1, ?2)").run(id, losses.stride);
  Statement insert(database, "INSERT INTO text_losses (evaluation_id, head, tokens, loss) VALUES (?1, ?2, ?3, ?4)");
  Statement insert_bytes(database, "INSERT INTO text_bytes (evaluation_id, head, bytes) VALUES (?1, ?2, ?3)");
  int64_t number = 0;
  for (const LoggedTextLosses::Head& head : losses.heads) {
    insert.run(id, ++number, head.tokens, head.loss);
    insert_bytes.run(id, number, head.bytes);
  }
  transaction.commit();
  return id;
}

}  // namespace wmtp
