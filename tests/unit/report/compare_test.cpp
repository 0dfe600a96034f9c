#include "report/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/error.hpp"
#include "log/run_log.hpp"

namespace wmtp {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class CompareTest : public testing::Test {
 protected:
  CompareTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "wmtp-compare-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    file_ = folder_ / "wmtp.db";
  }
  ~CompareTest() override { std::filesystem::remove_all(folder_); }

  void run(const std::string& name, int64_t seed, double keep, double loss, bool finishes = true, int64_t steps = 2) {
    RunStart start;
    start.name = name;
    start.seed = seed;
    start.pipeline = "rho1";
    start.config_hash = name;
    start.params = {{"pipeline.keep", keep}, {"seed", seed}, {"model.dim", int64_t{64}}, {"train.steps", steps}};
    RunLog log(file_, start);
    const auto speed = [&](double seconds, double passed) -> std::map<std::string, double> {
      return {{"perf/tokens_per_second", 100 / seconds}, {"perf/step_seconds", seconds}, {"perf/run_seconds", passed}};
    };
    log.metrics(1, {{"valid/loss", loss - 1}, {"train/loss", 2 * loss}, {"perf/run_tokens", 100}});
    log.metrics(1, speed(3, 3));
    log.metrics(2, {{"valid/loss", loss}, {"perf/run_tokens", 200}});
    log.metrics(2, speed(1, 4));
    if (finishes) log.end(ExitStatus::done);
  }
  Json compare(const std::vector<std::string>& words) const {
    std::ostringstream out;
    print_comparison(out, LogReader(file_), {.words = words, .as_json = true});
    return Json::parse(out.str());
  }
  std::string text(const ComparisonRequest& request) const {
    std::ostringstream out;
    print_comparison(out, LogReader(file_), request);
    return out.str();
  }
  std::string text(const std::vector<std::string>& words) const { return text(ComparisonRequest{.words = words}); }
  std::filesystem::path folder_, file_;
};

TEST_F(CompareTest, ShowsOnlyConfigurationThatDiffers) {
  run("a", 1, 0.5, 3);
  run("b", 2, 0.6, 4);
  const auto found = compare({"1", "2"});
  EXPECT_EQ(found["params"], (Json{{"pipeline.keep", {"0.5", "0.6"}}, {"seed", {"1", "2"}}}));
  EXPECT_EQ(found["metrics"]["valid/loss"]["last"][1]["mean"], 4);
  EXPECT_EQ(found["metrics"]["valid/loss, lowest"]["last"][0]["mean"], 2);
  EXPECT_EQ(found["metrics"]["perf/tokens_per_second"]["last"][0]["mean"], 50) << "200 tokens in 4 s";
  EXPECT_EQ(found["metrics"]["valid/loss"]["difference_from_first"][1]["mean"], 1);
  const std::string shown = text({"1", "2"});
  for (const char* part : {"pipeline.keep", "run 1", "run 2", "differences from run 1;", "+1"})
    EXPECT_NE(shown.find(part), std::string::npos) << part << "\n" << shown;
  EXPECT_EQ(shown.find("model.dim"), std::string::npos);
}

TEST_F(CompareTest, PairsRunsOfTwoNamesBySeed) {
  for (const auto& [seed, loss] : {std::pair{1, 3.0}, std::pair{2, 5.0}, std::pair{3, 7.0}}) run("base", seed, 1, loss);
  run("base", 1, 1, 100, /*finishes=*/false);  // newer, but unfinished
  run("rho1", 2, 0.6, 4.5);
  run("rho1", 1, 0.6, 9);  // superseded by the next run of this seed
  run("rho1", 1, 0.6, 2.9);
  const auto loss = compare({"base", "rho1"})["metrics"]["valid/loss"];
  EXPECT_EQ(loss["last"][0]["mean"], 5);
  EXPECT_EQ(loss["last"][0]["count"], 3);
  EXPECT_NEAR(loss["last"][0]["standard_error"], 2 / std::sqrt(3.0), 1e-12);
  EXPECT_EQ(loss["difference_from_first"][1]["count"], 2) << "seed 3 has no partner";
  EXPECT_NEAR(loss["difference_from_first"][1]["mean"], (-0.1 - 0.5) / 2, 1e-12);
  EXPECT_NEAR(loss["difference_from_first"][1]["standard_error"], 0.2, 1e-12);
  EXPECT_FALSE(compare({"base", "rho1"})["params"].contains("seed"));
  EXPECT_NE(text({"base", "rho1"}).find("base (3 seeds)"), std::string::npos);
}

TEST_F(CompareTest, ShowsValidationFirstAndTimeAndSpeedOnlyOnRequest) {
  run("a", 1, 0.5, 3);
  run("b", 1, 0.5, 4);
  const std::string all = text({.words = {"a", "b"}, .all = true});
  EXPECT_LT(all.find("valid/loss"), all.find("train/loss"));
  EXPECT_LT(all.find("train/loss"), all.find("perf/step_seconds"));
  EXPECT_EQ(text({"a", "b"}).find("perf/step_seconds"), std::string::npos);
  EXPECT_NE(text({"a", "b"}).find("shown with --all"), std::string::npos);
}

TEST_F(CompareTest, SubtractsNoLossesWithOtherWeights) {
  run("a", 1, 0.5, 3);
  run("b", 1, 0.6, 4);
  run("c", 1, 0.5, 4);
  const auto losses = [&](const char* other, const char* metric) {
    return compare({"a", other})["metrics"][metric]["difference_from_first"][1];
  };
  EXPECT_EQ(losses("b", "train/loss"), nullptr) << "pipeline.keep differs";
  EXPECT_EQ(losses("b", "valid/loss")["mean"], 1) << "validation has no weights";
  EXPECT_EQ(losses("c", "train/loss")["mean"], 2);
  EXPECT_NE(text({"a", "b"}).find("no difference of train/loss"), std::string::npos) << text({"a", "b"});
  EXPECT_EQ(text({"a", "c"}).find("no difference of"), std::string::npos);
}

TEST_F(CompareTest, SaysWhatTheErrorIsOrThatOneSeedTellsNothingOfNoise) {
  run("a", 1, 0.5, 3);
  run("b", 1, 0.5, 4);
  EXPECT_TRUE(holds(text({"a", "b"}),
                    "last values; differences from a (run 1); one seed each, so that noise between "
                    "seeds cannot be told from an effect\n"))
      << text({"a", "b"});
  run("a", 2, 0.5, 3.5);
  run("b", 2, 0.5, 5);
  EXPECT_TRUE(holds(text({"a", "b"}),
                    "differences from a (2 seeds), seed by seed; ± is the standard error of the mean "
                    "over the seeds\n[a, b] is the 95% interval of a difference, by Student's t over the paired "
                    "seeds;\n\"not distinguishable\": it contains 0\n"))
      << text({"a", "b"});
}

TEST_F(CompareTest, ShowsADivergedRunInsteadOfLeavingItOutOfTheMean) {
  for (const int64_t seed : {1, 2, 3}) {
    run("base", seed, 1, 3.0 + 0.1 * double(seed));
    run("diverges", seed, 1, seed == 2 ? std::nan("") : 2.0);
  }
  EXPECT_TRUE(
      holds(text({"base", "diverges"}), "valid/loss (mean over heads)     3.2 ± 0.058     nan                 nan\n"))
      << text({"base", "diverges"});
  EXPECT_TRUE(compare({"base", "diverges"})["metrics"]["valid/loss"]["difference_from_first"][1]["mean"].is_null());
}

TEST_F(CompareTest, GivesTheIntervalOfPairedSeedsOrSaysThatItContainsZero) {
  for (const auto& [seed, loss] : {std::pair{1, 3.0}, std::pair{2, 5.0}, std::pair{3, 7.0}}) {
    run("base", seed, 1, loss);
    run("less", seed, 1, loss - 0.5 - 0.01 * seed);
    run("same", seed, 1, loss + (seed == 2 ? 0.3 : -0.1));
  }
  const auto interval = [&](const char* other) {
    return compare({"base", other})["metrics"]["valid/loss"]["difference_from_first"][1]["interval_95"];
  };
  const double reach = 4.302653 * 0.01 / std::sqrt(3.0);  // 3 pairs leave t 2 degrees of freedom
  EXPECT_NEAR(interval("less")[0], -0.52 - reach, 1e-7);
  EXPECT_NEAR(interval("less")[1], -0.52 + reach, 1e-7);
  EXPECT_LT(interval("same")[0], 0);
  EXPECT_GT(interval("same")[1], 0);
  EXPECT_TRUE(holds(text({"base", "less"}), "-0.52 [-0.545, -0.495]")) << text({"base", "less"});
  EXPECT_TRUE(holds(text({"base", "same"}), "+0.03333 ± 0.13, not distinguishable")) << text({"base", "same"});
}

TEST_F(CompareTest, ComparesTheMeansOfSidesWhoseSeedsDoNotPair) {
  for (const auto& [seed, loss] : {std::pair{1, 3.0}, std::pair{2, 3.2}}) run("a", seed, 1, loss);
  for (const auto& [seed, loss] : {std::pair{3, 2.0}, std::pair{4, 2.2}}) run("b", seed, 1, loss);
  const auto loss = compare({"a", "b"})["metrics"]["valid/loss"]["difference_from_first"][1];
  EXPECT_NEAR(loss["mean"], -1, 1e-12);
  EXPECT_EQ(loss["count"], 4);
  const double reach = 4.302653 * std::sqrt(0.02);  // equal errors: 2 degrees of freedom
  EXPECT_NEAR(loss["interval_95"][0], -1 - reach, 1e-6);
  EXPECT_TRUE(holds(text({"a", "b"}), "(of b, with fewer than two in common, by Welch's t over all)"))
      << text({"a", "b"});
}

TEST_F(CompareTest, SaysWhichWordsMeanTheSame) {
  run("a", 1, 0.5, 3);
  run("b", 1, 0.5, 4);
  run("c", 1, 0.6, 4);
  EXPECT_TRUE(holds(text({"a", "1"}), "\na and 1 are the same run\n")) << text({"a", "1"});
  EXPECT_FALSE(holds(text({"a", "b"}), "the same")) << "the configurations are equal";
  EXPECT_TRUE(holds(text({"a", "b", "c"}), "\na (run 1) and b (run 2) have the same configuration\n"));
  EXPECT_FALSE(holds(text({"a", "c"}), "the same")) << text({"a", "c"});
}

TEST_F(CompareTest, WarnsOfANameWhoseRunsAreDifferentExperiments) {
  for (const int64_t seed : {1, 2}) {
    run("a", seed, 0.5, 3);
    run("b", seed, 0.5, 4);
  }
  EXPECT_FALSE(holds(text({"a", "b"}), "warning")) << text({"a", "b"});
  for (const char* name : {"a", "b"}) run(name, 2, 0.6, 5, /*finishes=*/true, /*steps=*/3);
  const std::string mixed = text({"a", "b"});
  EXPECT_TRUE(holds(mixed, "warning: the runs of a (2 seeds) differ in pipeline.keep and train.steps, so")) << mixed;
  EXPECT_TRUE(holds(mixed, "warning: the runs of b (2 seeds) differ in ")) << mixed;
  EXPECT_TRUE(holds(mixed, "2 | 3")) << mixed;
}

TEST_F(CompareTest, WarnsOfKeysThatChangeTheNumbersOfAnyMethod) {
  run("a", 1, 0.5, 3);
  run("b", 1, 0.6, 4);
  EXPECT_FALSE(holds(text({"a", "b"}), "warning")) << text({"a", "b"});
  run("b", 1, 0.6, 4, /*finishes=*/true, /*steps=*/3);
  EXPECT_TRUE(holds(text({"a", "b"}), "\nwarning: the runs also differ in train.steps, which changes the numbers"))
      << text({"a", "b"});
}

TEST_F(CompareTest, ExplainsMetricsInTheTable) {
  run("a", 1, 0.5, 3);
  run("b", 1, 0.5, 4);
  for (const char* part : {"valid/loss (mean over heads)", "train/loss (with token weights)"})
    EXPECT_TRUE(holds(text({"a", "b"}), part)) << text({"a", "b"});
}

TEST_F(CompareTest, PrintsNoDifferenceThatIsOnlyRounding) {
  run("a", 1, 0.5, 0.3);
  run("b", 1, 0.5, 0.1 + 0.2);
  run("c", 1, 0.5, 0.3 + 1e-9);
  const auto difference = [&](const char* other) {
    return compare({"a", other})["metrics"]["valid/loss"]["difference_from_first"][1]["mean"].get<double>();
  };
  EXPECT_NE(0.3, 0.1 + 0.2);
  EXPECT_EQ(difference("b"), 0);
  EXPECT_NEAR(difference("c"), 1e-9, 1e-15);
  EXPECT_FALSE(holds(text({"a", "b"}), "e-17")) << text({"a", "b"});
}

TEST_F(CompareTest, FitsTheWidthInSeveralTables) {
  const std::vector<std::string> words{"a-long-name", "another-long-name", "the-third-long-name",
                                       "the-fourth-long-name"};
  for (const std::string& word : words) run(word, 1, 0.5, 3);
  const std::string shown = text({.words = words, .columns = 104});
  std::istringstream lines(shown.substr(shown.find("\nmetric ")));
  int heads = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 104u) << line;
    heads += line.starts_with("metric ");
  }
  EXPECT_EQ(heads, 2) << shown;
  for (const std::string& word : words) EXPECT_TRUE(holds(shown, word)) << shown;
}

TEST_F(CompareTest, ComparesWithTheBaseline) {
  run("a", 1, 0.5, 3);
  run("b", 1, 0.5, 4);
  const auto loss = [&](const std::vector<std::string>& words) {
    std::ostringstream out;
    print_comparison(out, LogReader(file_), {.words = words, .baseline = "b", .as_json = true});
    return Json::parse(out.str());
  };
  for (const std::vector<std::string>& words : {std::vector<std::string>{"a", "b"}, {"a"}}) {
    EXPECT_EQ(loss(words)["runs"][0]["word"], "b");
    EXPECT_EQ(loss(words)["metrics"]["valid/loss"]["difference_from_first"][1]["mean"], -1);
  }
  EXPECT_THROW(text({.words = {"a", "b"}, .baseline = "absent"}), Error);
}

TEST_F(CompareTest, WarnsOfARunThatIsNotFinished) {
  run("a", 1, 0.5, 3);
  run("b", 1, 0.5, 4, /*finishes=*/false);
  run("c", 1, 0.5, 4);
  const auto warnings = [&](const std::vector<std::string>& words) {
    testing::internal::CaptureStderr();
    compare(words);
    return testing::internal::GetCapturedStderr();
  };
  const std::string warning = warnings({"a", "b"});
  EXPECT_TRUE(holds(warning, "run 2 is failed, at step 1: its values are compared with the last ones")) << warning;
  EXPECT_EQ(warnings({"a", "c"}), "");
}

TEST_F(CompareTest, TakesTheNameOfASweep) {
  run("lr-0.1", 1, 0.5, 3);
  run("lr-0.2", 1, 0.5, 4);
  run("lrate", 1, 0.5, 4);
  const auto runs = compare({"lr"})["runs"];
  ASSERT_EQ(runs.size(), 2u) << runs;
  EXPECT_EQ(runs[1]["word"], "lr-0.2");
}

TEST_F(CompareTest, RefusesFewerThanTwoRunsAndUnknownRuns) {
  run("a", 1, 0.5, 3);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"a"}, {"a", "aa"}})
    EXPECT_THROW(compare(words), Error);
}

TEST(MeanAndError, HasTheStandardErrorOfTheMean) {
  EXPECT_EQ(mean_and_error({}).count, 0);
  EXPECT_EQ(mean_and_error({4}).mean, 4);
  EXPECT_EQ(mean_and_error({4}).error, 0);
  EXPECT_EQ(mean_and_error({0.3, 0.1 + 0.2}).error, 0) << "rounding";
  EXPECT_DOUBLE_EQ(mean_and_error({1, 2, 3, 6}).mean, 3);
  EXPECT_DOUBLE_EQ(mean_and_error({1, 2, 3, 6}).error, std::sqrt(14.0 / 3 / 4));
}

TEST(QuantityOf, DependsOnTheHeadsOfAMeanOverThem) {
  const std::map<std::string, std::string> plain{{"model.future_tokens", "4"}, {"model.dim", "64"}},
      leaps{{"model.future_tokens", "4"}, {"model.future_offsets", "[1, 3, 5, 7]"}};
  for (const std::string metric : {"train/loss", "train/ce", "valid/loss", "valid/loss, lowest"})
    EXPECT_NE(quantity_of(metric, plain), quantity_of(metric, leaps)) << metric;
  EXPECT_EQ(quantity_of("valid/ce_head_1", plain), quantity_of("valid/ce_head_1", leaps));
  const std::map<std::string, std::string> more{{"model.future_tokens", "8"}, {"model.future_offsets", "[]"}};
  for (const std::string metric : {"valid/ce_head_2", "valid/accuracy_head_4", "train/ce_head_3"}) {
    EXPECT_NE(quantity_of(metric, plain), quantity_of(metric, leaps)) << metric;
    EXPECT_EQ(quantity_of(metric, plain), quantity_of(metric, more)) << metric;
  }
}

}  // namespace
}  // namespace wmtp
