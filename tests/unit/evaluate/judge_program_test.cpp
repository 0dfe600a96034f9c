#include "evaluate/judge_program.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.hpp"
#include "process/python_program.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

using testing::HasSubstr;

class JudgeProgramTest : public testing::Test {
 protected:
  JudgeProgramTest() {
    char name[] = "/tmp/wmtp-judge-XXXXXX";
    folder_ = mkdtemp(name);
    if (users_python().program.empty()) ADD_FAILURE() << "these tests need Python";
    suite_[0].line = R"({"task_id": "a", "wanted": [1, 2]})";
    suite_[1].line = R"({"task_id": "b", "wanted": [3]})";
  }
  ~JudgeProgramTest() override { std::filesystem::remove_all(folder_); }

  /// With the lines of its loop over answers, or a whole program.
  std::vector<Judged> judge(const std::string& each, const std::string& after = "") {
    std::ofstream(folder_ / "judge.py")
        << "import json, sys, time\nfor line in sys.stdin:\n    asked = json.loads(line)\n"
        << "    said, record = asked['answer'], asked['record']\n    " << each << "\n"
        << after << "\n";
    return judge_with_program({folder_ / "judge.py", folder_ / "suite.jsonl", "", std::chrono::seconds(1)}, suite_,
                              samples_);
  }
  std::string refused(const std::string& each, const std::string& after = "") {
    return test::refusal(ExitStatus::data, [&] { judge(each, after); });
  }

  std::filesystem::path folder_;
  std::vector<Problem> suite_{{"a", {}, "", ""}, {"b", {}, "", ""}};
  const std::vector<Sample> samples_{{1, "3"}, {0, "2"}, {0, "\xffü\"\n"}};
};

TEST_F(JudgeProgramTest, ReadsEachAnswerWithItsRecordAndSaysWhyItFails) {
  const auto judged = judge(
      "print(json.dumps({'passed': said.isdigit() and int(said) in record['wanted'], 'told': said + "
      "sys.argv[1][-5:]}))");
  ASSERT_EQ(judged.size(), 3u);
  EXPECT_EQ(judged[0].verdict, Verdict::passed);
  EXPECT_EQ(judged[1].verdict, Verdict::passed);
  EXPECT_EQ(judged[2].verdict, Verdict::failed);
  EXPECT_EQ(judged[2].message, "\xef\xbf\xbdü\"\njsonl") << "bytes that are not UTF-8 are replaced";
}

TEST_F(JudgeProgramTest, RefusesWhatIsNoVerdictWithItsLine) {
  EXPECT_THAT(refused("print('yes' if said == '2' else '{\"passed\": true}')"),
              HasSubstr("judge.py: line 2 of its output: found \"yes\", wanted {\"passed\": true}"));
  EXPECT_THAT(refused("print('{\"passed\": 1}')"), HasSubstr("line 1 of its output: found"));
  EXPECT_THAT(refused("print('{\"passed\": true, \"score\": 1}')"), HasSubstr("found \"score\": 1, wanted only"));
  EXPECT_THAT(refused("print('{\"passed\": true, \"told\": 1}')"), HasSubstr("found \"told\": 1"));
  EXPECT_THAT(refused("print('{\"passed\": true}')", "print('done')"), HasSubstr("found more lines than answers"));
}

TEST_F(JudgeProgramTest, DoesNotWaitForOneThatEndsOrIsSilent) {
  EXPECT_THAT(refused("sys.exit(3)"), HasSubstr("ended with exit code 3 before its verdict on answer 1"));
  EXPECT_THAT(refused("pass"), HasSubstr("line 1 of its output: found none for 1 s"));
  EXPECT_THAT(refused("print('{\"passed\": true}')", "sys.exit(2)"),
              HasSubstr("ended with exit code 2 after its last verdict"));
}

TEST_F(JudgeProgramTest, NamesAProgramThatIsMissing) {
  for (const auto& [file, python, wanted] : {std::tuple{"gone.py", "", "gone.py: no such file"},
                                             std::tuple{"judge.py", "no-such-python", "found no \"no-such-python\""}}) {
    const JudgeProgram program{folder_ / file, "suite.jsonl", python};
    EXPECT_THAT(test::refusal(ExitStatus::usage, [&] { judge_with_program(program, suite_, samples_); }),
                HasSubstr(wanted));
  }
}

}  // namespace
}  // namespace wmtp
