// `runs list`, `runs show` and the summary on a real log.
#include "report/runs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "experiment/canonical.hpp"
#include "experiment/experiment.hpp"
#include "log/database.hpp"
#include "log/maintenance.hpp"
#include "log/run_log.hpp"
#include "report/rank_times.hpp"
#include "report/summary.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

class RunsTest : public ::testing::Test {
 protected:
  RunsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "wmtp-report-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    file_ = folder_ / "wmtp.db";
  }
  ~RunsTest() override { std::filesystem::remove_all(folder_); }

  void rho1_run() {
    RunStart start;
    start.name = "rho1";
    start.pipeline = "rho1";
    start.adapter = "full";
    start.config_hash = "c0ffee";
    start.world_size = 2;
    start.strategy = "full_shard";
    start.precision = "fp32";
    start.device = "cpu";
    start.version = "0.1.0";
    start.params = {{"pipeline.keep", 0.6}};
    start.resolved_toml = to_toml(Experiment{}) + "\n[pipeline]\nkeep = 0.6\n";
    start.plugins = {{"pipeline", "rho1", "1.0", "0123456789abcdef", "/p/rho1.so"}};
    RunLog log(file_, start);
    log.metrics(0, {{"valid/loss", 6.0}});
    for (int64_t step = 1; step <= 20; ++step) {
      log.metrics(step, {{"train/loss", 6.0 - 0.1 * double(step)},
                         {"perf/tokens_per_second", 12345.0},
                         {"perf/step_seconds", 0.5},
                         {"rho1/selection_ratio", 0.6},
                         {"rho1/ce_selected", 3.0},
                         {"rho1/ce_unselected", 2.0},
                         {"train/grad_norm", step == 3 ? std::nan("") : 1.0}});
    }
    log.metrics(20, {{"valid/loss", 4.25}, {"time/forward", 3.0}, {"time/data", 1.0}});
    log.rank_times({{0, 20, "forward", 2.0}, {0, 20, "communication", 2.5}, {0, 20, "data", 1.0}});
    log.rank_times({{1, 20, "forward", 4.0}, {1, 20, "communication", 0.5}, {1, 20, "data", 1.0}});
    log.memory({{0, 20, "peak", "resident", 512 << 20},
                {1, 20, "peak", "resident", 256 << 20},
                {0, 20, "peak", "parameters", 99 << 20}});
    const auto moment = [&](int rank, int64_t step, const char* phase, int64_t parameters, int64_t activations) {
      log.memory({{rank, step, phase, "parameters", parameters << 20},
                  {rank, step, phase, "activations", activations << 20},
                  {rank, step, phase, "logits", 0},
                  {rank, step, phase, "allocated", (parameters + activations) << 20}});
    };
    moment(0, 1, "forward", 40, 20);
    moment(1, 1, "forward", 40, 10);
    moment(0, 1, "backward", 40, 30);
    moment(0, 20, "backward", 35, 64);
    log.checkpoint(10, "runs/1-rho1/step-000010", 1 << 20, "kept");
    log.checkpoint(20, "runs/1-rho1/model", 1 << 20, "kept");
    log.checkpoint(10, "runs/1-rho1/step-000010", 1 << 20, "deleted");
    log.event(1, "warning", "guard", 3, "step 3 skipped");
    log.end(ExitStatus::done);
  }

  std::string list(TableFormat format) const {
    std::ostringstream out;
    print_runs_list(out, LogReader(file_), format);
    return out.str();
  }
  std::string show(bool as_json = false) const {
    std::ostringstream out;
    print_run(out, LogReader(file_), 1, as_json);
    return out.str();
  }

  std::filesystem::path folder_, file_;
};

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(RunsTest, AnEmptyLogSuggestsACommand) {
  EXPECT_TRUE(holds(list(TableFormat::text), "wmtp-host run FILE.toml"));
  EXPECT_EQ(Json::parse(list(TableFormat::json)), Json::array());
}

TEST_F(RunsTest, TheListShowsLossesSpeedAndStatus) {
  rho1_run();
  const std::string text = list(TableFormat::text);
  for (const char* part : {"train/loss", "tokens/s", "rho1", "finished", "4.25", "12,345", "20"}) {
    EXPECT_TRUE(holds(text, part)) << part << '\n' << text;
  }
  const auto json = Json::parse(list(TableFormat::json))[0];
  EXPECT_EQ(json["steps"], 20);
  EXPECT_EQ(json["valid_loss"], 4.25);
  EXPECT_EQ(json["tokens_per_second"], 12345.0);
}

TEST_F(RunsTest, TheListFiltersAndSortsRuns) {
  rho1_run();
  RunStart start;
  start.name = "base";
  start.pipeline = "baseline";
  start.params = {{"pipeline.keep", 0.7}, {"data.kind", std::string("text")}};
  RunLog(file_, start).end(ExitStatus::guard);
  const auto ids = [&](const RunSelection& selection) {
    std::ostringstream out;
    print_runs_list(out, LogReader(file_), TableFormat::json, selection);
    std::vector<int64_t> found;
    for (const auto& run : Json::parse(out.str())) found.push_back(run["id"]);
    return found;
  };
  using Ids = std::vector<int64_t>;
  EXPECT_EQ(ids({}), (Ids{2, 1}));
  EXPECT_EQ(ids({.statuses = {"failed"}}), Ids{2});
  EXPECT_EQ(ids({.statuses = {"failed", "finished"}}), (Ids{2, 1}));
  EXPECT_EQ(ids({.statuses = {"lost"}}), Ids{});
  EXPECT_EQ(ids({.name = "rho*"}), Ids{1});
  EXPECT_EQ(ids({.name = "rho"}), Ids{});
  EXPECT_EQ(ids({.pipeline = "baseline"}), Ids{2});
  EXPECT_EQ(ids({.where = {"pipeline.keep=0.60"}}), Ids{1});
  EXPECT_EQ(ids({.where = {"pipeline.keep=0.7", "data.kind=text"}}), Ids{2});
  EXPECT_EQ(ids({.where = {"pipeline.keep=0.6", "data.kind=text"}}), Ids{});
  EXPECT_EQ(ids({.where = {"data.kind=' OR 1 = 1"}}), Ids{});
  EXPECT_EQ(ids({.sort = "name"}), (Ids{2, 1}));
  EXPECT_EQ(ids({.sort = "name", .reverse = true}), (Ids{1, 2}));
  EXPECT_EQ(ids({.sort = "valid_loss"}), (Ids{1, 2}));
  EXPECT_EQ(ids({.sort = "valid_loss", .reverse = true}), (Ids{1, 2}))
      << "a run without a value is last in both orders";
  EXPECT_EQ(ids({.reverse = true}), (Ids{1, 2}));
  EXPECT_EQ(ids({.limit = 1}), Ids{2});
  for (const char* wrong : {"pipeline.keep", "=3", "pipeline.kep=0.6"}) {
    EXPECT_THROW(ids({.where = {wrong}}), Error) << wrong;
  }
  std::ostringstream out;
  print_runs_list(out, LogReader(file_), TableFormat::text, {.name = "nothing"});
  EXPECT_TRUE(holds(out.str(), "none of the 2 runs")) << out.str();
}

TEST_F(RunsTest, TheListAsTextEndsAfterAHundredRunsUnlessALimitIsGiven) {
  for (int64_t i = 0; i <= listed_runs; ++i) {
    RunStart start;
    start.name = "run" + std::to_string(i);
    RunLog(file_, start).end(ExitStatus::done);
  }
  const auto printed = [&](TableFormat format, int64_t limit) {
    std::ostringstream out;
    print_runs_list(out, LogReader(file_), format, {.limit = limit});
    return out.str();
  };
  const std::string text = printed(TableFormat::text, 0);
  EXPECT_TRUE(holds(text, "run1 ") && holds(text, "--limit N shows more"));
  EXPECT_FALSE(holds(text, "run0 ")) << "the oldest";
  EXPECT_TRUE(holds(printed(TableFormat::text, 1000), "run0 "));
  EXPECT_TRUE(holds(printed(TableFormat::json, 0), "\"run0\""));
}

TEST_F(RunsTest, TheListShowsALostRun) {
  rho1_run();
  Database(file_, Database::Mode::write)
      .execute("UPDATE runs SET status = 'running', ended_at = NULL, heartbeat_at = '2020-01-01T00:00:00Z'");
  EXPECT_TRUE(holds(list(TableFormat::text), "lost"));
  EXPECT_EQ(Json::parse(list(TableFormat::json))[0]["status"], "lost");
}

TEST_F(RunsTest, ShowHasEverySection) {
  rho1_run();
  const std::string text = show();
  for (const char* part : {"run 1  rho1  finished (exit 0)", "2 ranks, full_shard, fp32, cpu", "pipeline.keep",
                           "0123456789ab", "rho1/ce_selected", "valid/loss", "peak memory", "512.0 MiB", "checkpoints",
                           "step-000010", "deleted", "events", "step 3 skipped", " |", "o valid/loss"}) {
    EXPECT_TRUE(holds(text, part)) << part << '\n' << text;
  }
}

TEST_F(RunsTest, ShowBeginsWithTheResultAndEndsWithTheOptionsThatAreNotDefaults) {
  rho1_run();
  const std::string text = show();
  EXPECT_TRUE(
      text.starts_with("run 1  rho1  finished (exit 0)\n"
                       "  result     validation loss 6.0000 -> 4.2500, fell by 1.7500\n"))
      << text;
  EXPECT_TRUE(
      text.ends_with("\noptions that are not defaults (all: --toml)\n"
                     "key            value\n"
                     "pipeline.keep  0.6\n"))
      << text;
}

TEST_F(RunsTest, ShowDrawsTheTrainingLossApartFromTheValidation) {
  rho1_run();
  const std::string text = show();
  EXPECT_TRUE(holds(text, " . train/loss\n") && holds(text, " o valid/loss\n")) << text;
  RunStart start;
  start.name = "heads";
  RunLog log(file_, start);
  for (int64_t step = 0; step < 3; ++step) log.metrics(step, {{"valid/loss", 6.0}, {"valid/ce_head_1", 5.5}});
  log.end(ExitStatus::done);
  std::ostringstream heads;
  print_run(heads, LogReader(file_), log.run_id(), /*as_json=*/false);
  EXPECT_TRUE(holds(heads.str(), " o valid/ce_head_1\n")) << heads.str();
  EXPECT_TRUE(holds(heads.str(), "  head 1     validation loss 5.5, lowest 5.5\n")) << heads.str();
}

TEST_F(RunsTest, ShowIsOneObjectInJson) {
  rho1_run();
  const auto json = Json::parse(show(/*as_json=*/true));
  EXPECT_EQ(json["id"], 1);
  EXPECT_EQ(json["params"]["pipeline.keep"], "0.6");
  EXPECT_EQ(json["plugins"][0]["sha256"], "0123456789abcdef");
  EXPECT_EQ(json["checkpoints"].size(), 2u);
  EXPECT_EQ(json["memory_peak"][0]["bytes"], 512 << 20);
  EXPECT_EQ(json["events"][0]["message"], "step 3 skipped");
  int found = 0;
  for (const auto& metric : json["metrics"]) {
    if (metric["name"] == "train/grad_norm") {
      EXPECT_EQ(metric["not_finite"], 1);
      ++found;
    }
    if (metric["name"] == "valid/loss") {
      EXPECT_EQ(metric["first"], 6.0);
      EXPECT_EQ(metric["last"], 4.25);
      ++found;
    }
  }
  EXPECT_EQ(found, 2);
}

TEST_F(RunsTest, ShowDrawsTheRequestedMetrics) {
  rho1_run();
  const LogReader log(file_);
  std::ostringstream out;
  print_run(out, log, 1, /*as_json=*/false, {"train/loss", "perf/tokens_per_second"});
  EXPECT_TRUE(holds(out.str(), ". perf/tokens_per_second")) << out.str();
  EXPECT_FALSE(holds(out.str(), "o valid/loss"));
  try {
    print_run(out, log, 1, /*as_json=*/false, {"train/los"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(holds(error.what(), "did you mean 'train/loss'?")) << error.what();
  }
}

TEST_F(RunsTest, ShowPrintsTheExperiment) {
  RunStart start;
  start.resolved_toml = "name = \"x\"\n";
  RunLog(file_, start).end(ExitStatus::done);
  std::ostringstream out;
  print_experiment(out, LogReader(file_), 1);
  EXPECT_EQ(out.str(), "name = \"x\"\n");
}

TEST_F(RunsTest, ShowRefusesAnUnknownRun) {
  rho1_run();
  std::ostringstream out;
  EXPECT_THROW(print_run(out, LogReader(file_), 7, /*as_json=*/false), Error);
}

/// A run whose steps of 1,000 tokens took these seconds, as the trainer reports them; only every `every` is logged.
void timed_run(const std::filesystem::path& file, const std::vector<double>& seconds, int64_t parent, int every = 1) {
  RunStart start;
  start.name = "timed";
  start.parent_run = parent;
  RunLog log(file, start);
  double passed = 0;
  for (size_t i = 0; i < seconds.size(); ++i) {
    passed += seconds[i];
    const auto step = int64_t(i) + 1;
    if (step % every != 0 && step != 1) continue;
    log.metrics(step, {{"perf/tokens_per_second", 1000 / seconds[i]},
                       {"perf/step_seconds", seconds[i]},
                       {"perf/run_tokens", 1000.0 * double(step)},
                       {"perf/run_seconds", passed},
                       {"perf/mfu", 0.1 / seconds[i]}});
  }
  log.end(ExitStatus::done);
}

TEST_F(RunsTest, SpeedIsTokensOverSecondsOfAllSegmentsOfARun) {
  timed_run(file_, {9.5, 0.5}, 0);       // the mean of the steps' rates would be 1,053, the last one's 2,000
  timed_run(file_, {0.5, 0.5, 0.5}, 1);  // resumes it: 5,000 tokens in 11.5 s
  const auto speed = [&](int64_t id) {
    return LogReader(file_)
        .query("SELECT tokens_per_second, mfu FROM v_runs WHERE id = CAST(?1 AS INTEGER)", {std::to_string(id)}, 1)
        .rows.at(0);
  };
  EXPECT_DOUBLE_EQ(speed(1)[0], 200);
  EXPECT_DOUBLE_EQ(speed(1)[1], 0.02) << "0.2 s of bare multiplication in 10 s";
  EXPECT_DOUBLE_EQ(speed(2)[0], 5000 / 11.5);
  EXPECT_DOUBLE_EQ(speed(2)[1], 0.5 / 11.5);
  EXPECT_EQ(Json::parse(list(TableFormat::json))[0]["tokens_per_second"], speed(2)[0]);
  EXPECT_TRUE(holds(list(TableFormat::text), " 435 ")) << list(TableFormat::text);
  std::ostringstream summary, shown;
  run_summary(summary, LogReader(file_), 2);
  EXPECT_TRUE(holds(summary.str(), "speed            435 tokens/s, 4% of plain matrix multiplication\n"))
      << summary.str();
  print_run(shown, LogReader(file_), 2, /*as_json=*/false);
  EXPECT_TRUE(holds(shown.str(), "speed      435 tokens/s, 4% of plain matrix multiplication\n")) << shown.str();
}

TEST_F(RunsTest, SpeedCountsStepsThatAreNotLogged) {
  timed_run(file_, {10, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, 0, /*every=*/5);
  EXPECT_DOUBLE_EQ(Json::parse(list(TableFormat::json))[0]["tokens_per_second"], 10'000 / 14.5);
}

TEST_F(RunsTest, SpeedOfAnOlderVersionsRunIsThatOfItsLoggedSteps) {
  timed_run(file_, {9.5, 0.5}, 0);
  Database(file_, Database::Mode::write)
      .execute("DELETE FROM metric_values WHERE name_id IN (SELECT id FROM metric_names WHERE name GLOB 'perf/run_*')");
  EXPECT_DOUBLE_EQ(Json::parse(list(TableFormat::json))[0]["tokens_per_second"], 200);
}

TEST_F(RunsTest, AShareOfMultiplicationAboveOneIsNotPrinted) {
  EXPECT_EQ(speed_text(1217.4, 0.463), "1,217 tokens/s, 46% of plain matrix multiplication");
  EXPECT_EQ(speed_text(1217.4, nullptr), "1,217 tokens/s");
  EXPECT_EQ(speed_text(1217.4, 0.463, "the specified peak"), "1,217 tokens/s, 46% of the specified peak");
  EXPECT_TRUE(speed_text(1217.4, 2.15).starts_with("1,217 tokens/s, faster than the matrix multiplication benchmark"));
}

TEST_F(RunsTest, TheSummaryHasSixLines) {
  rho1_run();
  std::ostringstream out;
  run_summary(out, LogReader(file_), 1);
  for (const std::string& part :
       std::vector<std::string>{"run 1 (rho1) finished after ", "s: validation loss 6.0000 -> 4.2500, fell by 1.7500\n",
                                "  speed            12,345 tokens/s",
                                "  time             forward 75%, data 25%; rank 1 is the slowest: 2.0s more",
                                "  peak memory      rank 0: 512.0 MiB, rank 1: 256.0 MiB resident\n",
                                "  checkpoint       runs/1-rho1/model (1.0 MiB)\n",
                                "  next             wmtp-host runs show 1 --db " + file_.string() + "\n"}) {
    EXPECT_TRUE(holds(out.str(), part)) << part << '\n' << out.str();
  }
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6) << text;
}

TEST_F(RunsTest, TheSummaryShowsSmallChangesOfALoss) {
  const auto summary = [&](double from, double to) {
    RunStart start;
    start.name = "still";
    RunLog log(file_, start);
    log.metrics(1, {{"train/loss", from}});
    log.metrics(2, {{"train/loss", to}});
    log.end(ExitStatus::done);
    std::ostringstream out;
    run_summary(out, LogReader(file_), log.run_id());
    return out.str();
  };
  EXPECT_TRUE(holds(summary(2, 2), ": training loss 2.0000 -> 2.0000, unchanged\n"));
  EXPECT_TRUE(holds(summary(2, 1.99997), "2.0000 -> 2.0000, fell by 3e-05\n"));
  EXPECT_TRUE(holds(summary(2, 2.5), "2.0000 -> 2.5000, rose by 0.5000\n"));
}

TEST_F(RunsTest, OneRankIsSingular) {
  RunStart start;
  start.name = "alone";
  start.world_size = 1;
  start.strategy = "no_shard";
  RunLog(file_, start).end(ExitStatus::done);
  EXPECT_TRUE(holds(show(), "layout     1 rank, no_shard")) << show();
}

TEST_F(RunsTest, AMissingLogIsNamedWithItsAbsolutePath) {
  const std::string absent = (folder_ / "absent" / "wmtp.db").string();
  std::ostringstream out;
  print_runs_list(out, LogReader(absent), TableFormat::text);
  EXPECT_TRUE(out.str().starts_with("no run log at " + absent + ";")) << out.str();
  const std::string text = test::refusal(ExitStatus::usage, [&] { LogReader(absent).resolve_run("rho1"); });
  EXPECT_SAYS(text, "no run log at " + absent);
  EXPECT_SAYS(text, "--db");
  EXPECT_SAYS(text, "WMTP_DB");
}

TEST_F(RunsTest, ShowHasTensorsOfTheLargestRankByPhaseAndTheTimeOfEachRank) {
  rho1_run();
  EXPECT_TRUE(holds(show(),
                    "tensors on rank 0, peak per phase\n"
                    "MiB       allocated  parameters  activations\n"
                    "backward         99          35           64\n"
                    "forward          60          40           20\n"))
      << show();
  EXPECT_TRUE(holds(show(),
                    "time by rank: rank 1 is the slowest: 2.0s more than the others in forward\n"
                    "phase          rank 0  rank 1\n"
                    "forward        2.0s    4.0s\n"
                    "communication  2.5s    0.5s\n"))
      << show();
}

TEST_F(RunsTest, AResumedRunIsOneRunWithItsSegments) {
  const auto segment = [&](int64_t parent, int64_t from, int64_t to, ExitStatus end) {
    RunStart start;
    start.name = "parts";
    start.parent_run = parent;
    RunLog log(file_, start);
    for (int64_t step = from; step <= to; ++step)
      log.metrics(step, {{"train/loss", 10.0 - double(step)}, {"valid/loss", 10.0 + double(step)}});
    log.metrics(to, {{"time/forward", 10.0}});
    log.memory({{0, to, "peak", "resident", (parent == 0 ? 9 : 5) << 20}});
    log.checkpoint(to, "step-" + std::to_string(to), 1 << 20, "kept");
    log.end(end);
    return log.run_id();
  };
  const int64_t first = segment(0, 1, 5, ExitStatus::interrupted);
  const int64_t last = segment(first, 4, 8, ExitStatus::done);
  std::ostringstream summary, shown;
  run_summary(summary, LogReader(file_), last);
  for (const char* part : {"run 2 (parts) finished after ", "s in 2 segments: validation loss 11.0000 -> 18.0000",
                           "rank 0: 9.0 MiB", "checkpoint       step-8"})
    EXPECT_TRUE(holds(summary.str(), part)) << summary.str();

  print_run(shown, LogReader(file_), last, /*as_json=*/true);
  const auto run = Json::parse(shown.str());
  EXPECT_EQ(run["segments"].size(), 2u);
  EXPECT_EQ(run["segments"][0]["last_step"], 3);
  EXPECT_EQ(run["segments"][1]["first_step"], 4);
  EXPECT_EQ(run["checkpoints"].size(), 2u);
  for (const auto& metric : run["metrics"]) {
    if (metric["name"] == "train/loss") {
      EXPECT_EQ(metric["first"].get<double>() - metric["last"].get<double>(), 7);
      EXPECT_EQ(metric["points"], 8);
    }
    if (metric["name"] == "time/forward") {
      EXPECT_EQ(metric["last"], 20);
    }
  }

  EXPECT_EQ(Json::parse(list(TableFormat::json)).size(), 1u) << "one row for both";
  std::ostringstream all;
  print_runs_list(all, LogReader(file_), TableFormat::json, {.segments = true});
  EXPECT_EQ(Json::parse(all.str()).size(), 2u);
}

TEST_F(RunsTest, ALossThatIsNotFiniteIsNotReplacedByThatOfAnOlderSegment) {
  RunStart start;
  {
    RunLog log(file_, start);
    for (int64_t step = 1; step <= 3; ++step) log.metrics(step, {{"train/loss", 2.0}});
    log.end(ExitStatus::interrupted);
    start.parent_run = log.run_id();
  }
  RunLog log(file_, start);
  log.metrics(4, {{"train/loss", std::nan("")}});
  log.end(ExitStatus::done);
  const auto run = Json::parse(list(TableFormat::json))[0];
  EXPECT_EQ(run["steps"], 4);
  EXPECT_TRUE(run["train_loss"].is_null()) << run;
}

TEST_F(RunsTest, TheListHidesArchivedRunsAndSelectsByTag) {
  rho1_run(), rho1_run();
  change_tags(file_, 1, {"paper", "old"}, {});
  set_archived(file_, 1, true);
  const auto count = [&](const RunSelection& selection) {
    std::ostringstream out;
    print_runs_list(out, LogReader(file_), TableFormat::json, selection);
    return Json::parse(out.str()).size();
  };
  EXPECT_EQ(count({}), 1u);
  EXPECT_EQ(count({.archived = true}), 2u);
  EXPECT_EQ(count({.tags = {"paper", "old"}, .archived = true}), 1u);
  EXPECT_EQ(count({.tags = {"paper", "new"}, .archived = true}), 0u);
  EXPECT_EQ(count({.tags = {"paper"}}), 0u);
}

TEST_F(RunsTest, RanksWithEqualTimesAreCalledEquallyFast) {
  RunStart start;
  start.name = "even";
  RunLog log(file_, start);
  log.rank_times({{0, 1, "forward", 10.0}, {1, 1, "forward", 10.05}, {0, 1, "communication", 1.0}});
  log.end(ExitStatus::done);
  const auto slowest = slowest_rank(LogReader(file_), 1);
  ASSERT_TRUE(slowest);
  EXPECT_EQ(slowest->rank, 1);
  EXPECT_EQ(slowest_rank_text(*slowest), "ranks are equally fast");
}

TEST_F(RunsTest, ThePeakOfACategoryNamesItsPhase) {
  rho1_run();
  const auto rows =
      LogReader(file_)
          .query("SELECT bytes, phase, step FROM v_memory_peak WHERE rank = 0 AND category = ?1 ", {"activations"}, 10)
          .rows;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0], (std::vector<Json>{64 << 20, "backward", 20}));
}

TEST_F(RunsTest, TheSummaryOmitsMissingMeasurements) {
  RunStart start;
  start.name = "bare";
  RunLog(file_, start).end(ExitStatus::guard);
  std::ostringstream out;
  run_summary(out, LogReader(file_), 1);
  EXPECT_TRUE(holds(out.str(), "run 1 (bare) failed"));
  for (const char* part : {"loss", "time", "memory", "checkpoint"}) EXPECT_FALSE(holds(out.str(), part)) << part;
}

}  // namespace
}  // namespace wmtp
