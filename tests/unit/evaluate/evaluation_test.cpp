#include "evaluate/evaluation.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/landlock.hpp"

namespace wmtp {
namespace {

TEST(PassAtK, IsTheProbabilityThatOneOfKPasses) {
  EXPECT_NEAR(pass_at_k(200, 50, 1), 0.25, 1e-12);
  EXPECT_NEAR(pass_at_k(200, 50, 10), 0.947906, 1e-6);
  EXPECT_NEAR(pass_at_k(20, 1, 5), 0.25, 1e-12);
  EXPECT_EQ(pass_at_k(5, 0, 5), 0);
  EXPECT_EQ(pass_at_k(5, 5, 1), 1);
  EXPECT_EQ(pass_at_k(5, 1, 5), 1);
}

const std::vector<Problem> two{{"a", {}, "", "assert f() == 1\n"}, {"b", {}, "", "assert f() == 2\n"}};
const std::string one = "def f(): return 1", forever = "def f():\n  while True: pass";

std::string refused(const std::vector<Sample>& samples, const std::vector<int64_t>& ks) {
  try {
    check_samples(two, samples, ks);
  } catch (const Error& error) {
    return error.what();
  }
  return "was taken";
}

TEST(Evaluation, KeepsTheOrderForAnyNumberOfJobs) {
  if (!landlock()) GTEST_SKIP() << "this kernel has no Landlock";
  SandboxLimits limits;
  limits.seconds = 1;
  const Sandbox sandbox("python3", limits);
  const std::vector<Sample> samples{{0, one}, {1, one}, {0, forever}, {1, "def f(): return 2"}};
  for (const int jobs : {1, 3}) {
    const auto judged = judge(two, samples, &sandbox, jobs);
    ASSERT_EQ(judged.size(), 4u);
    EXPECT_EQ(judged[0].verdict, Verdict::passed) << judged[0].message;
    EXPECT_EQ(judged[1].verdict, Verdict::failed);
    EXPECT_EQ(judged[2].verdict, Verdict::timed_out);
    EXPECT_EQ(judged[3].verdict, Verdict::passed);
    const Score score = compute_score(two, samples, judged, {1, 2});
    EXPECT_EQ(score.samples, 4);
    EXPECT_EQ(score.passed, 2);
    EXPECT_EQ(score.timed_out, 1);
    EXPECT_EQ(score.pass_at, (std::map<int64_t, double>{{1, 0.5}, {2, 1.0}}));
    EXPECT_EQ(compute_score(two, samples, judged, {}).pass_at.size(), 1u) << "there are no ten of each";
  }
}

TEST(Evaluation, ComparesTextsIfAProblemHasAnAnswer) {
  std::vector<Problem> records{{"a", {}, "", "", "12=21\n#21"}};
  const std::vector<Sample> samples{{0, "12=21\n#21"}, {0, "12=22\n#22"}, {0, "12=21"}, {0, "12=21\n#21 "}};
  const auto judged = judge(records, samples, nullptr, 2);
  EXPECT_EQ(judged[0].verdict, Verdict::passed);
  EXPECT_EQ(judged[1].verdict, Verdict::failed);
  EXPECT_EQ(judged[1].message, "at byte 5: found \"2\n#22\", wanted \"1\n#21\"");
  EXPECT_EQ(judged[2].message, "at byte 6: found the end, wanted \"\n#21\"");
  EXPECT_EQ(judged[3].message, "at byte 10: found \" \", wanted the end");
}

TEST(Evaluation, ScoresTheGroupsThatTaskIdsName) {
  EXPECT_EQ(group_of("degree 1/0317"), "degree 1");
  EXPECT_EQ(group_of("a/b/c"), "a/b");
  EXPECT_EQ(group_of("alone"), "");
  const std::vector<Problem> problems{{"x/1", {}, "", ""}, {"x/2", {}, "", ""}, {"y/1", {}, "", ""}};
  const std::vector<Sample> samples{{0, ""}, {0, ""}, {1, ""}, {1, ""}, {2, ""}, {2, ""}};
  std::vector<Judged> judged(6, Judged{Verdict::passed, "", 0});
  judged[0].verdict = judged[2].verdict = judged[3].verdict = Verdict::failed;
  const Score score = compute_score(problems, samples, judged, {1, 2});
  ASSERT_EQ(score.groups.size(), 2u);
  EXPECT_EQ(score.groups.at("x").problems, 2);
  EXPECT_EQ(score.groups.at("x").pass_at, (std::map<int64_t, double>{{1, 0.25}, {2, 0.5}}));
  EXPECT_EQ(score.groups.at("y").pass_at, (std::map<int64_t, double>{{1, 1.0}, {2, 1.0}}));
  EXPECT_DOUBLE_EQ(score.pass_at.at(1), 0.5);
}

TEST(Evaluation, RequiresSamplesOfEveryProblemAndEnoughForK) {
  EXPECT_NE(refused({{0, one}}, {}).find("1 of 2 problems have no sample"), std::string::npos);
  EXPECT_NE(refused({{0, one}, {0, one}, {1, one}}, {2}).find("b has 1"), std::string::npos);
  EXPECT_EQ(refused({{0, one}, {1, one}}, {1}), "was taken");
}

}  // namespace
}  // namespace wmtp
