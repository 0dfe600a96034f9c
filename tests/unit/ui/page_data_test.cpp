#include "ui/page_data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/log_fixture.hpp"
#include "ui/routes.hpp"

namespace wmtp {
namespace {

class PageDataTest : public LogTest {
 protected:
  /// Steps 1..n with value 1/step, by the log's own writer.
  int64_t run(const std::string& name, int64_t steps) {
    RunStart given = start(name);
    given.params = {{"pipeline.keep", 0.5}, {"data.files", name}};
    RunLog log(file_, given);
    for (int64_t step = 1; step <= steps; ++step) log.metrics(step, {{"train/loss", 1.0 / double(step)}});
    const int64_t id = log.run_id();
    log.end(ExitStatus::done);
    return id;
  }
  void value(int64_t run, int64_t step, const std::string& value, const std::string& kind) {
    execute("INSERT INTO metric_values VALUES (" + std::to_string(run) +
            ", (SELECT id FROM metric_names WHERE name = 'train/loss'), " + std::to_string(step) + ", " + value + ", " +
            kind + ", 0)");
  }
  static CurvesRequest losses(const std::vector<int64_t>& runs) {
    CurvesRequest request;
    request.runs = runs;
    request.names = {"train/loss"};
    return request;
  }
  static std::string joined(const std::vector<SharedText>& parts) {
    std::string text;
    for (const SharedText& part : parts) text += *part;
    return text;
  }
  static OrderedJson all_runs(PageData& data) { return OrderedJson::parse(joined(data.runs_text())); }
  static RefreshRequest after(const OrderedJson& answer, const std::vector<int64_t>& runs) {
    return {answer["epoch"], answer["version"], answer["cursor"], answer["event_cursor"], losses(runs)};
  }
};

TEST_F(PageDataTest, ListsRunsNewestFirstWithTheirLastValues) {
  run("a", 4), run("b", 2);
  PageData data(file_);
  const OrderedJson answer = all_runs(data);
  ASSERT_EQ(answer["runs"].size(), 2u);
  EXPECT_EQ(answer["runs"][0]["name"], "b");
  EXPECT_EQ(answer["runs"][1]["steps"], 4);
  EXPECT_EQ(answer["runs"][1]["train_loss"], 0.25);
  EXPECT_EQ(answer["names"], OrderedJson({"train/loss"}));
}

TEST_F(PageDataTest, SharesTheTextOfRunsAndConfigurationsBetweenAnswers) {
  const int64_t a = run("a", 4);
  run("b", 2);
  PageData data(file_);
  const std::vector<SharedText> first = data.runs_text();
  ASSERT_EQ(first.size(), 5u) << "a beginning, two runs with a comma between, and an end";
  value(a, 5, "0.125", "NULL");
  const std::vector<SharedText> next = data.runs_text();
  EXPECT_EQ(next[1], first[1]) << "the same text, not an equal one";
  EXPECT_NE(*next[3], *first[3]);
  EXPECT_EQ(data.configs(), data.configs());
  const PageResponse answer = handle_page_request(data, "/api/runs", {});
  EXPECT_EQ(answer.more.at(1), first[1]);
  EXPECT_EQ(OrderedJson::parse(answer.body + joined(answer.more)), all_runs(data));
  EXPECT_EQ(data.runs({a})["runs"], OrderedJson::array({all_runs(data)["runs"][1]}));
}

TEST_F(PageDataTest, ReloadsThePageWhenVeryManyRunsAreNew) {
  run("a", 1);
  PageData data(file_);
  const OrderedJson before = all_runs(data);
  execute(
      "CREATE TEMP TABLE one AS SELECT * FROM runs; UPDATE one SET id = NULL; "
      "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) INSERT INTO runs SELECT one.* "
      "FROM n, one");
  EXPECT_EQ(data.refresh(after(before, {})), OrderedJson({{"reset", true}}));
  EXPECT_EQ(all_runs(data)["runs"].size(), 1501u);
}

TEST_F(PageDataTest, ShowsAnEmptyPageUntilTheLogHasRuns) {
  PageData data(file_);
  const OrderedJson before = all_runs(data);
  EXPECT_TRUE(before["runs"].empty());
  run("a", 3);
  const OrderedJson refreshed = data.refresh(after(before, {}));
  EXPECT_TRUE(refreshed.contains("reset") || refreshed["runs"].size() == 1) << refreshed;
  EXPECT_EQ(all_runs(data)["runs"].size(), 1u);
}

TEST_F(PageDataTest, SmoothsCurvesOverAllPoints) {
  const int64_t id = run("a", 1000);
  PageData data(file_);
  CurvesRequest request = losses({id});
  request.smoothing = 0.9;
  request.cells = 10;
  const OrderedJson curve = data.curves(request)["curves"].at(0);
  EXPECT_EQ(curve["points"], 1000);
  EXPECT_LE(curve["raw"]["step"].size(), 22u);
  std::vector<double> steps, all;
  for (int step = 1; step <= 1000; ++step) steps.push_back(step), all.push_back(1.0 / step);
  const std::vector<double> means = debiased_mean(steps, all, 0.9);
  for (size_t i = 0; i < curve["smooth"]["step"].size(); ++i) {
    const auto step = curve["smooth"]["step"][i].get<size_t>();
    EXPECT_NEAR(curve["smooth"]["value"][i].get<double>(), means[step - 1], 1e-8);
  }
}

TEST_F(PageDataTest, ListsNonFiniteValuesSeparatelyByKind) {
  const int64_t id = run("a", 3);
  value(id, 4, "NULL", "'nan'");
  value(id, 5, "NULL", "'inf'");
  value(id, 6, "NULL", "'-inf'");
  PageData data(file_);
  const OrderedJson curve = data.curves(losses({id}))["curves"].at(0);
  EXPECT_EQ(curve["raw"]["step"], OrderedJson({1, 2, 3}));
  EXPECT_EQ(curve["not_finite"]["step"], OrderedJson({4, 5, 6}));
  EXPECT_EQ(curve["not_finite"]["value"], OrderedJson({"nan", "inf", "-inf"}));
}

TEST_F(PageDataTest, SendsOnlyNewRowsAfterTheCursor) {
  const int64_t a = run("a", 3), b = run("b", 3);
  PageData data(file_);
  const OrderedJson first = all_runs(data);
  data.curves(losses({a, b}));
  EXPECT_TRUE(data.refresh(after(first, {a, b}))["new"].empty());
  EXPECT_TRUE(data.refresh(after(first, {a, b}))["runs"].empty());

  value(b, 4, "0.125", "NULL");
  value(b, 5, "NULL", "'nan'");
  RefreshRequest request = after(first, {a, b});
  request.shown.smoothing = 0.5;
  const OrderedJson answer = data.refresh(request);
  ASSERT_EQ(answer["new"].size(), 1u) << answer;
  EXPECT_EQ(answer["new"][0]["run"], b);
  EXPECT_EQ(answer["new"][0]["step"], OrderedJson({4, 5}));
  EXPECT_EQ(answer["new"][0]["value"], OrderedJson({0.125, "nan"}));
  EXPECT_NEAR(answer["new"][0]["smooth"][0].get<double>(), 0.125, 1e-8) << "too few points";
  ASSERT_EQ(answer["runs"].size(), 1u);
  EXPECT_EQ(answer["runs"][0]["steps"], 5);
  EXPECT_TRUE(data.refresh(after(answer, {a, b}))["new"].empty());
}

TEST_F(PageDataTest, ResetsAPageWhenARunIsDeletedSinceRowidsAreReused) {
  const int64_t a = run("a", 3), b = run("b", 3);
  PageData data(file_);
  const OrderedJson first = all_runs(data);
  execute("PRAGMA foreign_keys = ON; DELETE FROM runs WHERE id = " + std::to_string(b));
  const int64_t c = run("c", 4);
  EXPECT_EQ(data.refresh(after(first, {a, b})), OrderedJson({{"reset", true}}));
  const OrderedJson curves = data.curves(losses({a, b, c}))["curves"];
  ASSERT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves[1]["raw"]["step"], OrderedJson({1, 2, 3, 4}));
}

TEST_F(PageDataTest, JoinsTheSegmentsOfAResumedRun) {
  const int64_t first = run("a", 5);
  PageData data(file_);
  RunStart given = start("a");
  given.parent_run = first;
  RunLog log(file_, given);
  log.metrics(100, {{"other", 1.0}});
  const auto logged = [&](int64_t rows) {
    return eventually([&] { return integer("SELECT count(*) FROM metric_values WHERE run_id = 2") == rows; });
  };
  ASSERT_TRUE(logged(1));
  const OrderedJson before = all_runs(data);
  EXPECT_EQ(data.curves(losses({2}))["curves"].at(0)["raw"]["step"], OrderedJson({1, 2, 3, 4, 5}));
  log.metrics(4, {{"train/loss", 9.0}, {"train/tokens", 400.0}});
  ASSERT_TRUE(logged(3));
  EXPECT_EQ(data.refresh(after(before, {2})), OrderedJson({{"reset", true}}))
      << "the repeated steps are no longer part";
  const OrderedJson now = all_runs(data);
  const OrderedJson curve = data.curves(losses({2}))["curves"].at(0);
  EXPECT_EQ(curve["raw"]["step"], OrderedJson({1, 2, 3, 4}));
  EXPECT_EQ(curve["raw"]["value"][3], 9.0);
  EXPECT_EQ(curve["raw"]["tokens"], OrderedJson({100, 200, 300, 400}));
  EXPECT_EQ(curve["segments"][0]["run"], 2);
  EXPECT_EQ(curve["segments"][0]["step"], 4.0);
  const auto seconds = curve["raw"]["seconds"].get<std::vector<double>>();
  EXPECT_TRUE(std::is_sorted(seconds.begin(), seconds.end())) << curve;
  log.metrics(5, {{"train/loss", 8.0}});
  ASSERT_TRUE(logged(4));
  const OrderedJson answer = data.refresh(after(now, {2}));
  ASSERT_TRUE(answer.contains("new")) << answer;
  EXPECT_EQ(answer["new"].at(0)["step"], OrderedJson({5}));
  EXPECT_EQ(now["runs"][1]["resumed_by"], 2);
}

TEST_F(PageDataTest, ListsTheConfigurationThatDiffersBetweenRuns) {
  run("a", 1), run("b", 1);
  PageData data(file_);
  EXPECT_EQ(OrderedJson::parse(*data.configs())["keys"],
            OrderedJson({{"data.files", {{"1", "a"}, {"2", "b"}}}, {"sweep", {{"1", "tiny"}, {"2", "tiny"}}}}));
}

TEST_F(PageDataTest, TellsWhichRunsMeasureTheSame) {
  const auto run_with = [&](double keep, int64_t heads) {
    RunStart given = start();
    given.params = {{"pipeline.keep", keep}, {"model.future_tokens", heads}, {"seed", int64_t{1}}};
    RunLog log(file_, given);
    log.metrics(1, {{"valid/loss", 5.0}});
    log.end(ExitStatus::done);
  };
  run("without heads", 1);
  PageData data(file_);
  EXPECT_EQ(OrderedJson::parse(*data.configs())["quantities"], OrderedJson::object()) << "one run";
  run_with(0.5, 4), run_with(0.6, 4), run_with(0.5, 1);
  const OrderedJson answer = OrderedJson::parse(*data.configs());
  EXPECT_EQ(answer["quantities"]["valid/loss"], OrderedJson({{"2", 1}, {"3", 1}, {"4", 2}})) << answer;
  EXPECT_EQ(answer["quantities"]["train/loss"], OrderedJson({{"1", 1}, {"2", 2}, {"3", 3}, {"4", 4}})) << answer;
  EXPECT_EQ(answer["why_no_difference"], "the weights or the heads differ; compare valid/ce_head_1");
}

TEST_F(PageDataTest, CurvesThatAreThinnedHaveCommonSteps) {
  const int64_t a = run("a", 5000), b = run("b", 4000);
  PageData data(file_);
  CurvesRequest request = losses({a, b});
  request.cells = 100;
  const OrderedJson curves = data.curves(request)["curves"];
  std::vector<std::vector<int64_t>> steps;
  for (const auto& curve : curves) steps.push_back(curve["raw"]["step"]);
  ASSERT_EQ(steps.size(), 2u);
  std::vector<int64_t> common;
  std::set_intersection(steps[0].begin(), steps[0].end(), steps[1].begin(), steps[1].end(), std::back_inserter(common));
  EXPECT_GE(common.size(), 80u);
  EXPECT_LE(steps[0].size(), 400u);
  EXPECT_EQ(curves[0]["every"], 1.0);
  EXPECT_EQ(curves[0]["can_be_smoothed"], true);
}

TEST_F(PageDataTest, HasAPageForOneRun) {
  run("a", 2);
  PageData data(file_);
  const OrderedJson answer = data.run(1);
  EXPECT_EQ(answer["name"], "a");
  EXPECT_EQ(answer["params"]["pipeline.keep"], "0.5");
  EXPECT_EQ(answer["metrics"][0]["name"], "train/loss");
  EXPECT_EQ(answer["metrics"][0]["last"], 0.5);
  EXPECT_EQ(answer["segment_rows"].size(), 1u);
  EXPECT_TRUE(answer["resolved_toml"].get<std::string>().find("seed = 0") != std::string::npos);
  for (const char* table : {"checkpoints", "generations", "evaluations", "answers", "text_losses", "rank_times"})
    EXPECT_TRUE(answer[table].empty()) << table;
  EXPECT_THROW(data.run(7), Error);
}

TEST_F(PageDataTest, ZoomsToFullDetail) {
  const int64_t id = run("a", 1000);
  PageData data(file_);
  CurvesRequest request = losses({id});
  request.cells = 20;
  request.from = 500, request.to = 510;
  EXPECT_EQ(data.curves(request)["curves"].at(0)["raw"]["step"],
            OrderedJson({499, 500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510, 511}));
}

TEST_F(PageDataTest, ShowsTheDifferencesOfRunsAndTheWholeConfigOfOne) {
  const int64_t a = run("a", 1), b = run("b", 1);
  PageData data(file_);
  const OrderedJson differing = data.params({a, b});
  ASSERT_EQ(differing["rows"].size(), 1u);
  EXPECT_EQ(differing["rows"][0], OrderedJson({{"key", "data.files"}, {"values", {"a", "b"}}}));
  EXPECT_EQ(data.params({a})["rows"].size(), 2u);
}

TEST_F(PageDataTest, ReturnsSamplesByHeadWithUnchangedText) {
  const int64_t id = run("a", 1);
  const std::string text = "\n\t </script> \xe2\x80\xa8";
  Database database(file_, Database::Mode::write);
  Statement insert(database, "INSERT INTO samples VALUES (?1, 10, 0, 0, ?2, 65, ?3, ?4, 2.5, ?5)");
  insert.run(id, 1, text, 0.5, 1.5);
  insert.run(id, 2, text, std::nullopt, std::nullopt);
  Statement align(database, "INSERT INTO sample_alignments VALUES (?1, 10, 0, 0, 2, -0.25, -0.5)");
  align.run(id);
  PageData data(file_);
  EXPECT_EQ(data.sampled(id), OrderedJson({{"run", id}, {"steps", {10}}, {"sequences", {0}}, {"heads", {1, 2}}}));
  const OrderedJson columns = data.tokens(id, 10, 0)["columns"];
  EXPECT_EQ(columns["text"], OrderedJson({text, text}));
  EXPECT_EQ(columns["weight"], OrderedJson({0.5, nullptr}));
  EXPECT_EQ(columns["reference_loss"], OrderedJson({1.5, nullptr}));
  EXPECT_EQ(columns["head"], OrderedJson({1, 2}));
  EXPECT_EQ(columns["product"], OrderedJson({nullptr, -0.25}));
  EXPECT_EQ(columns["cosine"], OrderedJson({nullptr, -0.5}));
}

TEST_F(PageDataTest, ReturnsMemoryAndEventsOfTheLog) {
  RunLog log(file_, start());
  log.memory({{0, 1, "forward", "activations", 1024}, {1, 1, "forward", "activations", 2048}});
  log.event(0, "warning", "guard", 3, "loss <b>rose</b>");
  const int64_t id = log.run_id();
  log.end(ExitStatus::done);
  PageData data(file_);
  EXPECT_EQ(data.memory(id)["rows"][1], OrderedJson({1, 1, "forward", "activations", 2048}));
  const OrderedJson events = data.events({id});
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["message"], "loss <b>rose</b>");
  EXPECT_EQ(events[0]["step"], 3);
}

TEST_F(PageDataTest, AnswersRequestsByPathAndRefusesInvalidParameters) {
  run("a", 3);
  PageData data(file_);
  EXPECT_EQ(handle_page_request(data, "/", {}).type, "text/html; charset=utf-8");
  EXPECT_EQ(handle_page_request(data, "/curves.js", {}).type, "text/javascript; charset=utf-8");
  const PageResponse curves =
      handle_page_request(data, "/api/curves", {{"runs", "1"}, {"name", "train/loss"}, {"smoothing", "0.9"}});
  ASSERT_EQ(curves.status, 200) << curves.body;
  EXPECT_EQ(OrderedJson::parse(curves.body)["curves"][0]["raw"]["step"], OrderedJson({1, 2, 3}));
  EXPECT_EQ(handle_page_request(data, "/absent", {}).status, 404);
  EXPECT_EQ(handle_page_request(data, "/../../etc/passwd", {}).status, 404);
  for (const PageParameters& wrong : std::vector<PageParameters>{{{"runs", "x"}},
                                                                 {{"runs", "1,"}, {"smoothing", "1"}},
                                                                 {{"runs", "1"}, {"cells", "0"}},
                                                                 {{"runs", "1"}, {"from", "nan"}}}) {
    const PageResponse refused = handle_page_request(data, "/api/curves", wrong);
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_TRUE(OrderedJson::parse(refused.body).contains("error"));
  }
}

TEST_F(PageDataTest, ReplacesTextThatIsNotUtf8) {
  const int64_t id = run("a", 1);
  execute("INSERT INTO events VALUES (" + std::to_string(id) + ", 0, 0, 'info', 'k', 1, CAST(x'41ff42' AS TEXT))");
  PageData data(file_);
  const PageResponse events = handle_page_request(data, "/api/events", {{"runs", std::to_string(id)}});
  ASSERT_EQ(events.status, 200) << events.body;
  EXPECT_EQ(OrderedJson::parse(events.body)[0]["message"],
            "A\xef\xbf\xbd"
            "B");
}

TEST(OwnPage, AcceptsOnlyLoopbackNames) {
  for (const char* host :
       {"127.0.0.1:8317", "localhost:9000", "localhost", "127.0.0.1", "127.1.2.3:80", "[::1]:9000", "[::1]"}) {
    EXPECT_TRUE(is_own_page(host, "", true)) << host;
    EXPECT_TRUE(is_own_page(host, "http://localhost:9000", false)) << host;
    EXPECT_TRUE(is_own_page(host, std::string("http://") + host, true)) << host;
  }
  for (const char* host : {"", ":80", "evil.example:8317", "127.0.0.1.evil.example:8317", "127.0.0.1:80.evil.example",
                           "127.0.0.1:", "127.1", "localhost:99999", "localhost.evil.example", "evil.localhost.example",
                           "128.0.0.1", "127.0.0.256", "[::2]:80", "[::1].evil.example", "[::1", "::1",
                           "evil.example@localhost", "localhost:80:80", "0.0.0.0:8317"}) {
    EXPECT_FALSE(is_own_page(host, "", false)) << host;
    EXPECT_FALSE(is_own_page("127.0.0.1:8317", std::string("http://") + host, false)) << host;
  }
  for (const char* origin : {"null", "https://127.0.0.1:8317", "127.0.0.1:8317"})
    EXPECT_FALSE(is_own_page("127.0.0.1:8317", origin, false)) << origin;
}

TEST(OwnPage, IsChangedByItselfOnly) {
  for (const char* origin :
       {"http://127.0.0.1:80", "http://localhost:8317", "http://127.0.0.1", "http://127.0.0.1:83170"})
    EXPECT_FALSE(is_own_page("127.0.0.1:8317", origin, true)) << origin;
}

}  // namespace
}  // namespace wmtp
