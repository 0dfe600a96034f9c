#include "log/evaluations.hpp"

#include <cmath>

#include "base/embedded.hpp"
#include "log/maintenance.hpp"
#include "log/migrations.hpp"
#include "log/open_log.hpp"
#include "support/log_fixture.hpp"

namespace wmtp {
namespace {

using Evaluations = LogTest;

LoggedEvaluation two_problems(int64_t run_id) {
  LoggedEvaluation evaluation{.run_id = run_id, .suite = "suite.jsonl", .suite_sha256 = "c0ffee", .max_tokens = 512};
  evaluation.temperature = 0.8;
  evaluation.answers = {{"t/0", 1, "passed", 0.1, "", "right"},
                        {"t/0", 2, "failed", 0.2, "AssertionError", "wrong \xff"},
                        {"t/1", 1, "timed_out", 3.0, "not at its end", ""},
                        {"t/1", 2, "failed", 0.1, "", "x"}};
  return evaluation;
}

TEST_F(Evaluations, AreReadBackWithEachAnswer) {
  { RunLog log(file_, start()); }
  EXPECT_EQ(log_evaluation(file_, two_problems(1)), 1);
  EXPECT_EQ(log_evaluation(file_, two_problems(1)), 2);
  Database database(file_, Database::Mode::read);
  EXPECT_EQ(database.text("SELECT group_concat(problems || ' ' || answers || ' ' || passed || ' ' || pass_at_1, '; ') "
                          "FROM v_evaluations"),
            "2 4 1 0.25; 2 4 1 0.25");
  EXPECT_EQ(database.text("SELECT answer FROM evaluation_answers WHERE sample = 2 AND task_id = 't/0'"),
            "wrong \xef\xbf\xbd")
      << "what is no UTF-8 is replaced";
}

TEST_F(Evaluations, HaveTheGroupsThatTaskIdsName) {
  { RunLog log(file_, start()); }
  LoggedEvaluation evaluation = two_problems(1);
  evaluation.answers.push_back({"a/b/c", 1, "passed", 0, "", ""});
  evaluation.answers.push_back({"alone", 1, "passed", 0, "", ""});
  log_evaluation(file_, evaluation);
  Database database(file_, Database::Mode::read);
  EXPECT_EQ(
      database.text("SELECT group_concat(\"group\" || ':' || problems || ' ' || answers || ' ' || passed || ' ' || "
                    "pass_at_1, '; ') FROM v_evaluation_groups"),
      ":1 1 1 1.0; a/b:1 1 1 1.0; t:2 4 1 0.25");
}

TEST_F(Evaluations, AreDeletedWithTheirRun) {
  { RunLog log(file_, start()); }
  log_evaluation(file_, two_problems(1));
  delete_rows(file_, {{1, ""}});
  EXPECT_EQ(Database(file_, Database::Mode::read).integer("SELECT count(*) FROM evaluation_answers"), 0);
  EXPECT_THROW(log_evaluation(file_, two_problems(1)), Error) << "there is no such run";
}

TEST_F(Evaluations, OfTextsAreARowForEachHead) {
  { RunLog log(file_, start()); }
  const auto text = folder_ / "a.txt";
  std::ofstream(text) << "abc";
  EXPECT_EQ(log_text_losses(file_, {1, {text, text}, 0, {{7, 1.5, 3}, {6, std::nan(""), 3}}}), 1);
  EXPECT_EQ(log_text_losses(file_, {1, {text}, 5, {{8, 0.6931471805599453, 4}}}), 2);
  Database database(file_, Database::Mode::read);
  EXPECT_EQ(database.text("SELECT group_concat(id || ' ' || head || ' ' || tokens || ' ' || coalesce(loss, 'none'), "
                          "'; ') FROM v_text_losses"),
            "1 1 7 1.5; 1 2 6 none; 2 1 8 0.693147180559945");
  EXPECT_EQ(database.text("SELECT group_concat(coalesce(stride, '-') || ' ' || bytes || ' ' || "
                          "coalesce(round(bits_per_byte, 3), 'none'), '; ') FROM v_text_losses"),
            "- 3 5.049; - 3 none; 5 4 2.0");
  const std::string abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(database.text("SELECT texts_sha256 FROM text_evaluations WHERE id = 1"), abc + "\n" + abc);
  EXPECT_EQ(database.text("SELECT texts FROM text_evaluations WHERE id = 2"), text.string());
  EXPECT_THROW(log_text_losses(file_, {9, {text}, 0, {{7, 1.5, 3}}}), Error) << "there is no such run";
  delete_rows(file_, {{1, ""}});
  for (const char* table : {"text_losses", "text_bytes", "text_strides"})
    EXPECT_EQ(database.integer(std::string("SELECT count(*) FROM ") + table), 0) << "they go with their run";
}

/// With one run, "old".
Database log_of_version(const std::filesystem::path& file, int64_t version) {
  Database database(file, Database::Mode::create);
  for (const auto& [name, sql] : embedded_sql())
    if (name[0] == '0' && std::stoll(name) <= version) database.execute(sql);
  database.execute("PRAGMA user_version = " + std::to_string(version));
  database.execute(
      "INSERT INTO runs (name, pipeline, adapter, status, started_at, heartbeat_at, config_hash, seed, world_size, "
      "strategy, precision, device, git_commit, host, version, experiment_toml, resolved_toml) VALUES ('old', 'p', "
      "'a', 'finished', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z', 'h', 0, 1, 's', 'fp32', 'cpu', '', '', '', "
      "'', '')");
  return database;
}

TEST_F(Evaluations, OfTextsInALogWithoutBytesAndStridesAreReadWithNone) {
  log_of_version(file_, 3).execute(
      "INSERT INTO text_evaluations (run_id, time_ns, texts, texts_sha256) VALUES (1, 0, 'a', 'b');"
      "INSERT INTO text_losses (evaluation_id, head, tokens, loss) VALUES (1, 1, 7, 1.5)");
  const Table found = LogReader(file_).query("SELECT loss, stride, bytes, bits_per_byte FROM v_text_losses", {}, 10);
  EXPECT_EQ(found.rows, (std::vector<Row>{{1.5, nullptr, nullptr, nullptr}}));
}

TEST_F(Evaluations, MigrateALogOfTheFirstVersion) {
  log_of_version(file_, 1);
  EXPECT_EQ(LogReader(file_).query("SELECT name FROM v_runs", {}, 10).rows.size(), 1u) << "readable as it is";
  for (const char* newer : {"v_evaluations", "v_text_losses", "generations"})
    EXPECT_TRUE(LogReader(file_).query(std::string("SELECT * FROM ") + newer, {}, 10).rows.empty()) << newer;
  log_evaluation(file_, two_problems(1));
  Database database(file_, Database::Mode::read);
  EXPECT_EQ(database.integer("PRAGMA user_version"), newest_schema_version());
  EXPECT_EQ(database.text("SELECT run FROM v_evaluations"), "old");
}

}  // namespace
}  // namespace wmtp
