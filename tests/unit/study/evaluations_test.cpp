#include "study/evaluations.hpp"

#include <gmock/gmock.h>

#include "support/data_fixture.hpp"
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

class StudyEvaluations : public ExperimentFolder {};

TEST_F(StudyEvaluations, ReadTheProblemsOfEachSeedUnderEachCondition) {
  Study study;
  study.metric = "eval/greedy/high";
  study.conditions = {"few", "many"};
  StudyEvaluation& of = study.evaluations.emplace_back();
  of.name = "greedy";
  of.suite = (folder_ / "{condition}-{seed}.jsonl").string();
  const std::string problem = R"({"task_id": "high/1", "prompt": "1+1", "completion": "2"})";
  for (const char* name : {"few-1.jsonl", "few-2.jsonl", "many-1.jsonl"}) write(name, problem + "\n");
  check_evaluations(study, {1});
  const auto check_both = [&] { check_evaluations(study, {1, 2}); };
  EXPECT_THAT(error_of(ExitStatus::data, check_both), testing::HasSubstr("many-2.jsonl"));
  write("many-2.jsonl", with(problem, "high", "low") + "\n");
  EXPECT_THAT(error_of(ExitStatus::data, check_both), testing::HasSubstr("no task_id begins with \"high/\""));
}

}  // namespace
}  // namespace wmtp
