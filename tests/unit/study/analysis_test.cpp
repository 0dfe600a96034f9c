#include "study/analysis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <tuple>

#include "study/figures.hpp"
#include "study/study_report.hpp"
#include "support/temporary_folder.hpp"

namespace wmtp {
namespace {

/// A run with validations at steps 0, 10 and 20 of 100 tokens each, at 1 or more seconds a step.
StudyResult made(const std::string& member, int64_t seed, double last, double seconds_a_step = 1) {
  StudyResult result;
  result.member = member;
  result.seed = seed;
  result.operations_per_step = 1e6;
  result.steps = {0, 10, 20};
  for (const int64_t step : result.steps) {
    result.tokens.push_back(100.0 * double(step));
    result.seconds.push_back(seconds_a_step * double(step));
  }
  result.metrics["valid/loss"] = {8, last + 1, last};
  return result;
}

class StudyOfThreeSeeds : public testing::Test {
 protected:
  StudyOfThreeSeeds() {
    study_.name = "made";
    study_.metric = "valid/loss";
    study_.seeds = {1, 2, 3};
    study_.members.resize(3);
    study_.members[0].name = study_.members[0].title = "plain";
    study_.members[1].name = study_.members[1].title = "good";
    study_.members[2].name = study_.members[2].title = "same";
    const double noise[] = {0, 0.3, -0.2};
    for (const int64_t seed : study_.seeds) {
      const double level = 5 + noise[seed - 1], small = 0.001 * double(seed);
      results_.runs.push_back(made("plain", seed, level));
      results_.runs.push_back(made("good", seed, level - 0.5 - small, 2));
      results_.runs.push_back(made("same", seed, level + (seed == 2 ? 0.2 : -0.1)));
    }
  }
  StudyRow row(size_t member, size_t budget = 0) const {
    for (const StudyRow& one : analyse(study_, results_).rows)
      if (one.member == member && one.budget == study_.budgets[budget]) return one;
    return {};
  }

  Study study_;
  StudyResults results_;
};

TEST_F(StudyOfThreeSeeds, TellsWhatIsBetterFromWhatIsNotDistinguishable) {
  const StudyRow good = row(1), same = row(2);
  EXPECT_NEAR(good.difference.mean, -0.502, 1e-12);
  EXPECT_EQ(good.verdict, StudyVerdict::better);
  EXPECT_EQ(same.verdict, StudyVerdict::not_distinguishable);
  EXPECT_NEAR(*good.effect, -0.502 / row(0).deviation, 1e-12);
  EXPECT_DOUBLE_EQ(*good.corrected_p, 2 * *good.difference.p);
  study_.lower_is_better = false;
  EXPECT_EQ(row(1).verdict, StudyVerdict::worse);
}

TEST_F(StudyOfThreeSeeds, ComparesWhereTheShortestRunOfTheSeedEnded) {
  study_.budgets.push_back({BudgetUnit::seconds, 0});
  EXPECT_NEAR(row(1, 1).difference.mean, 0.498, 1e-12) << "the good one is half as fast, and only half trained";
  study_.budgets.push_back({BudgetUnit::tokens, 1500});
  EXPECT_NEAR(row(0, 2).mean, 5 + 0.1 / 3 + 0.5, 1e-12) << "half way between two validations";
  EXPECT_EQ(row(0, 2).missing, 0);
  study_.budgets.push_back({BudgetUnit::operations, 3e7});
  EXPECT_EQ(row(0, 3).missing, 3) << "no run went so far";
}

TEST_F(StudyOfThreeSeeds, KnowsNothingBeforeTheFirstValue) {
  for (StudyResult& run : results_.runs) {
    for (auto* spent : {&run.tokens, &run.seconds}) spent->erase(spent->begin());
    run.steps.erase(run.steps.begin());
    run.metrics["valid/loss"].erase(run.metrics["valid/loss"].begin());
  }
  study_.budgets.push_back({BudgetUnit::tokens, 999});
  study_.budgets.push_back({BudgetUnit::tokens, 1000});
  EXPECT_EQ(row(0, 1).missing, 3);
  EXPECT_EQ(row(0, 2).missing, 0);
}

TEST_F(StudyOfThreeSeeds, TakesNoDifferenceOfOtherQuantities) {
  study_.explored = {"train/loss"};
  for (StudyResult& run : results_.runs) run.metrics["train/loss"] = run.metrics["valid/loss"];
  study_.members[1].incomparable = {"train/loss"};
  for (const StudyRow& row : analyse(study_, results_).rows) {
    EXPECT_EQ(row.seeds, 3);
    EXPECT_EQ(row.difference.pairs, row.member == 0 || (row.member == 1 && !row.is_primary) ? 0 : 3);
  }
}

TEST_F(StudyOfThreeSeeds, EndsAtAStopWhereAllIsDecidedAndSpendsTheLevelOnEachLook) {
  study_.members.pop_back();
  study_.seeds.push_back(4);
  study_.stops = {2, 3};
  const Study stopped = stopped_study(study_, results_);
  EXPECT_EQ(stopped.seeds.size(), 2u);
  EXPECT_EQ(stopped.looks(), 3);
  const double p = *analyse(stopped, results_).rows[1].corrected_p;
  EXPECT_TRUE(p < 0.05 / 3) << p;
  study_.stops = {2};
  results_.runs[1].metrics["valid/loss"].back() = 4.5536;  // p is 0.037: below 5%, above 5% / 2
  const StudyRow open = analyse(stopped_study(study_, results_), results_).rows[1];
  EXPECT_EQ(open.seeds, 3);
  for (StudyResult& run : results_.runs)
    if (run.member == "good") run.metrics["valid/loss"].back() = 5 + 0.3 * double(run.seed % 2);
  EXPECT_EQ(stopped_study(study_, results_).seeds.size(), 4u) << "nothing is decided";
}

TEST_F(StudyOfThreeSeeds, CountsRunsThatDivergedAndSeedsThatAreMissing) {
  results_.runs[1].diverged = true;
  results_.runs.pop_back();
  EXPECT_EQ(row(1).diverged, 1);
  EXPECT_EQ(row(1).difference.pairs, 2);
  EXPECT_EQ(row(1).verdict, StudyVerdict::diverged) << "however good the others are";
  EXPECT_EQ(row(2).missing, 1);
  EXPECT_EQ(row(2).verdict, StudyVerdict::incomplete);
  std::ostringstream text;
  print_markdown(text, study_, results_, analyse(study_, results_));
  EXPECT_NE(text.str().find("diverged in 1 of 3 seeds"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("missing in 1 of 3 seeds"), std::string::npos) << text.str();
}

TEST_F(StudyOfThreeSeeds, DecidesNothingWhileRunsAreMissing) {
  study_.budgets.push_back({BudgetUnit::seconds, 0});
  std::erase_if(results_.runs, [](const StudyResult& run) { return run.member == "same"; });
  const StudyRow good = row(1), at_shortest = row(1, 1);
  EXPECT_EQ(good.verdict, StudyVerdict::better);
  EXPECT_DOUBLE_EQ(*good.corrected_p, 4 * *good.difference.p) << "two members at two budgets, of which one has a p";
  EXPECT_EQ(at_shortest.verdict, StudyVerdict::incomplete) << "the missing run may be the shortest";
  results_.runs.pop_back();  // of "good", with seed 3
  EXPECT_EQ(row(1).verdict, StudyVerdict::incomplete);
}

TEST_F(StudyOfThreeSeeds, ComparesNothingWithAControlThatIsMissing) {
  results_.runs.erase(results_.runs.begin());
  EXPECT_EQ(row(1).missing, 0);
  EXPECT_EQ(row(1).verdict, StudyVerdict::incomplete);
}

TEST_F(StudyOfThreeSeeds, DecidesNothingOfARunThatDivergedBeforeTheOtherOfItsPairIsThere) {
  results_.runs[1].diverged = true;
  results_.runs.erase(results_.runs.begin());
  EXPECT_EQ(row(1).verdict, StudyVerdict::incomplete);
  EXPECT_EQ(row(2).verdict, StudyVerdict::incomplete);
}

TEST_F(StudyOfThreeSeeds, MakesNoMemberBetterThatDivergesWhereItsControlDoesNot) {
  study_.seeds = {1, 2, 3, 4};
  for (const char* member : {"plain", "good", "same"}) results_.runs.push_back(made(member, 4, 5));
  (results_.runs.end() - 2)->diverged = true;
  EXPECT_EQ(row(1).verdict, StudyVerdict::diverged);
  (results_.runs.end() - 3)->diverged = true;
  EXPECT_EQ(row(1).verdict, StudyVerdict::better) << "the control diverged, too";
  (results_.runs.end() - 3)->diverged = false;
  study_.lower_is_better = false;
  EXPECT_EQ(row(1).verdict, StudyVerdict::worse);
}

TEST_F(StudyOfThreeSeeds, SaysWhichSeedsRanOnSeveralMachines) {
  std::ostringstream one, several;
  print_markdown(one, study_, results_, analyse(study_, results_));
  results_.runs[4].machine = "other";
  print_markdown(several, study_, results_, analyse(study_, results_));
  EXPECT_EQ(one.str().find("several machines"), std::string::npos);
  EXPECT_NE(several.str().find("seconds are not comparable: seed 2\n"), std::string::npos) << several.str();
}

TEST_F(StudyOfThreeSeeds, IsReadBackFromItsJsonAlsoInParts) {
  const test::TemporaryFolder folder;
  results_.definition = {{"metric", "valid/loss"}};
  StudyResults parts[2];
  for (size_t i = 0; i < results_.runs.size(); ++i) parts[i < 3 ? 0 : 1].runs.push_back(results_.runs[i]);
  for (size_t i = 0; i < 2; ++i) {
    parts[i].definition = results_.definition;
    parts[i].tried = {{"good", {"optimizer.lr=0.1"}, {4.5, std::nullopt}}};
    parts[i].inputs = {{"plain", {{"data", "abc"}}}};
    parts[i].plan = {{"begun_at", "now"}, {"changes", {"of " + std::to_string(i)}}};
    std::ofstream(folder.path() / std::to_string(i)) << report_json(study_, parts[i], analyse(study_, parts[i]));
  }
  StudyResults joined;
  add_results(folder.path() / "0", joined);
  add_results(folder.path() / "1", joined);
  std::ostringstream once, again;
  print_markdown(once, study_, results_, analyse(study_, results_));
  print_markdown(again, study_, joined, analyse(study_, joined));
  EXPECT_EQ(joined.tried.size(), 1u);
  EXPECT_EQ(joined.plan["changes"], Json({"of 0", "of 1"}));
  EXPECT_NE(again.str().find("| good | optimizer.lr=0.1: - |"), std::string::npos) << again.str();
  joined.tried.clear();
  joined.plan = nullptr;
  again.str("");
  print_markdown(again, study_, joined, analyse(study_, joined));
  EXPECT_EQ(once.str(), again.str());
}

TEST_F(StudyOfThreeSeeds, JoinsNoResultsThatDoNotBelongTogether) {
  const test::TemporaryFolder folder;
  const auto written = [&](const std::string& name, const StudyResults& of) {
    std::ofstream(folder.path() / name) << report_json(study_, of, analyse(study_, of));
    return folder.path() / name;
  };
  const auto refused = [&](const StudyResults& second, const std::string& wanted) {
    StudyResults joined;
    add_results(written("first", results_), joined);
    try {
      add_results(written("second", second), joined);
      ADD_FAILURE() << "wanted: " << wanted;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(wanted), std::string::npos) << error.what();
    }
  };
  results_.definition = {{"metric", "valid/loss"}};
  results_.inputs = {{"plain", {{"data", "abc"}}}};
  refused(results_, "member \"plain\" with seed 1 is there already");
  StudyResults other = results_;
  for (StudyResult& run : other.runs) run.seed += 10;
  other.runs[1].choice = {"optimizer.lr=0.1"};
  refused(other, "member \"good\": its runs have different values of the tuned keys: ; optimizer.lr=0.1");
  other.inputs["plain"]["data"] = "def";
  refused(other, "other data or models than in the first file: plain.data: \"abc\" then, \"def\" now");
  other.definition["metric"] = "valid/ce_head_1";
  refused(other, "another study");
}

TEST_F(StudyOfThreeSeeds, IsDrawnWithAllMembersAndNothingThatBreaksXml) {
  study_.members[1].name = study_.members[1].title = "a < b & c";
  for (StudyResult& run : results_.runs)
    if (run.member == "good") run.member = study_.members[1].name;
  const std::string curves = curves_svg(study_, results_),
                    differences = differences_svg(study_, analyse(study_, results_));
  for (const std::string* svg : {&curves, &differences}) {
    EXPECT_NE(svg->find("a &lt; b &amp; c"), std::string::npos);
    EXPECT_EQ(svg->find("nan"), std::string::npos);
    EXPECT_EQ(svg->find("inf"), std::string::npos);
    EXPECT_TRUE(svg->ends_with("</svg>\n"));
  }
  EXPECT_NE(differences.find("not distinguishable"), std::string::npos);
}

TEST_F(StudyOfThreeSeeds, IsDrawnIfItsValuesDifferByRounding) {
  for (StudyResult& run : results_.runs)
    run.metrics["valid/loss"] = std::vector<std::optional<double>>(3, run.seed == 2 ? 0.1 + 0.2 : 0.3);
  results_.runs.pop_back();
  EXPECT_NE(curves_svg(study_, results_).find(">0.3</text>"), std::string::npos);
}

TEST_F(StudyOfThreeSeeds, IsDrawnAsPointsOfFinishedModels) {
  for (StudyResult& run : results_.runs) {
    run.steps = {20};
    run.tokens = run.seconds = {2000};
    run.metrics["valid/loss"] = {run.metrics["valid/loss"].back()};
  }
  const std::string curves = curves_svg(study_, results_);
  EXPECT_EQ(curves.find("<path"), std::string::npos);
  size_t points = 0;
  for (size_t at = 0; (at = curves.find("<circle", at)) != std::string::npos; ++at) ++points;
  EXPECT_EQ(points, 3 * study_.members.size()) << "against tokens, operations and seconds";
}

TEST_F(StudyOfThreeSeeds, ShowsNothingOfOthersResultsThatControlsATerminal) {
  results_.plan = {{"begun_at", "now\033[31m"}, {"changes", {"seeds\033[31m"}}};
  results_.tried = {{"good", {"optimizer.lr=\033[31m"}, {4.5}}};
  for (StudyResult& run : results_.runs) run.choice = {"optimizer.lr=\033[31m"};
  std::ostringstream text;
  print_markdown(text, study_, results_, analyse(study_, results_));
  EXPECT_EQ(text.str().find('\033'), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("- seeds\\x1b[31m"), std::string::npos) << text.str();
}

TEST_F(StudyOfThreeSeeds, IsDrawnWithoutResults) {
  results_.runs.clear();
  EXPECT_EQ(curves_svg(study_, results_).find("nan"), std::string::npos);
  EXPECT_EQ(differences_svg(study_, analyse(study_, results_)).find("nan"), std::string::npos);
}

TriedChoice tried(std::vector<std::optional<double>> values) { return {"good", {}, std::move(values)}; }

TEST(BestChoice, IsTheFirstOfThoseWithTheBestMean) {
  const std::vector<TriedChoice> all{tried({4.5, 5}), tried({3, 5}), tried({5, 3}), tried({5, 6}), tried({6, 5})};
  Study study;
  EXPECT_EQ(best_choice(study, all), std::optional<size_t>(1));
  study.lower_is_better = false;
  EXPECT_EQ(best_choice(study, all), std::optional<size_t>(3));
}

TEST(BestChoice, HasAValueOfEverySeed) {
  const std::vector<TriedChoice> diverged{tried({1, std::nullopt}), tried({std::nullopt, std::nullopt})};
  EXPECT_EQ(best_choice(Study(), diverged), std::nullopt);
  EXPECT_EQ(best_choice(Study(), {}), std::nullopt);
  EXPECT_EQ(best_choice(Study(), {diverged[0], tried({4, 5}), diverged[1]}), std::optional<size_t>(1));
}

TEST(StudyUnderConditions, ComparesEachMemberWithTheControlUnderTheSameCondition) {
  Study study;
  study.name = "noisy";
  study.metric = "valid/loss";
  study.seeds = {1, 2, 3};
  study.conditions = {"0%", "50%"};
  study.budgets.push_back({BudgetUnit::seconds, 0});
  StudyResults results;
  for (const auto& [name, condition, control, level, seconds] :
       std::vector<std::tuple<std::string, std::string, size_t, double, double>>{
           {"plain", "0%", 0, 3, 1}, {"good", "0%", 0, 3, 2}, {"plain", "50%", 2, 5, 4}, {"good", "50%", 2, 4, 8}}) {
    StudyMember& member = study.members.emplace_back();
    member.name = name + ", " + condition;
    member.title = name;
    member.condition = condition;
    member.control = control;
    for (const int64_t seed : study.seeds)
      results.runs.push_back(made(member.name, seed, level + 0.01 * double(seed * (name == "good" ? 1 : -1)), seconds));
  }
  EXPECT_EQ(study.comparisons(), 4) << "one member under two conditions, at two budgets";
  const std::vector<StudyRow> rows = analyse(study, results).rows;
  ASSERT_EQ(rows.size(), 8u);
  EXPECT_FALSE(rows[0].difference.pairs);
  EXPECT_NEAR(rows[1].difference.mean, 0.04, 1e-12);
  EXPECT_FALSE(rows[2].difference.pairs) << "the control under the second condition";
  EXPECT_NEAR(rows[3].difference.mean, -0.96, 1e-12);
  EXPECT_EQ(rows[3].verdict, StudyVerdict::better);
  EXPECT_NEAR(rows[7].mean, 5.02, 1e-12) << "at the seconds of the shortest run under its own condition: step 10";

  std::ostringstream text;
  print_markdown(text, study, results, analyse(study, results));
  const size_t first = text.str().find("at the end, 0%, seeds 1, 2 and 3:"),
               second = text.str().find("at the end, 50%, seeds 1, 2 and 3:");
  ASSERT_NE(first, std::string::npos);
  ASSERT_GT(second, first);
  EXPECT_NE(text.str().find("| good | 4.02 ± 0.01 | -0.96"), std::string::npos) << text.str();
  EXPECT_TRUE(
      text.str().starts_with("Differences in valid/loss at the end, by condition:\n\n"
                             "| valid/loss minus plain | 0% | 50% |\n| --- | --- | --- |\n| good | +0.04 ["))
      << text.str();
  EXPECT_NE(curves_svg(study, results).find("valid/loss, 50%"), std::string::npos);
  EXPECT_NE(differences_svg(study, analyse(study, results)).find("good, 50%, the end"), std::string::npos);
}

}  // namespace
}  // namespace wmtp
