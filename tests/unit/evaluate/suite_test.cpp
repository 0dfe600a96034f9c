#include "evaluate/suite.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.hpp"
#include "support/packed.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

class SuiteTest : public testing::Test {
 protected:
  SuiteTest() {
    char name[] = "/tmp/wmtp-suite-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~SuiteTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path put(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  static std::string refused(const std::function<void()>& act) { return test::refusal(ExitStatus::data, act); }
  static void expect_has(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  std::filesystem::path folder_;
};

const std::string human_eval =
    R"({"task_id": "HumanEval/0", "prompt": "def f(x):\n", "entry_point": "f", "test": "def check(g):\n    assert g(1) == 2"})"
    "\n";
const std::string mbpp =
    R"({"task_id": 11, "text": "Add one.", "code": "", "test_setup_code": "y = 1", "test_list": ["assert f(1) == 2", "assert f(y) == 2"]})"
    "\n";

TEST_F(SuiteTest, AProblemIsAPromptAndTests) {
  const auto both = {read_suite(put("one.jsonl", human_eval)), read_suite(put("other.jsonl", mbpp))};
  std::vector<Problem> suite;
  for (const Suite& one : both) {
    ASSERT_EQ(one.problems.size(), 1u);
    suite.push_back(one.problems[0]);
  }
  EXPECT_EQ(both.begin()->stops[1], "\ndef");
  EXPECT_EQ(std::count(both.begin()[1].stops.begin(), both.begin()[1].stops.end(), "\ndef"), 0) << "it begins there";
  EXPECT_EQ(suite[0].task_id, "HumanEval/0");
  EXPECT_EQ(suite[0].prompt.instruction, "def f(x):\n");
  EXPECT_TRUE(suite[0].prompt.has_whole_prompt) << "no template changes it";
  EXPECT_EQ(suite[0].before, "def f(x):\n");
  EXPECT_EQ(suite[0].tests, "def check(g):\n    assert g(1) == 2\ncheck(f)\n");
  EXPECT_EQ(suite[0].entry_point, "f");
  EXPECT_EQ(suite[1].task_id, "mbpp/11");
  EXPECT_EQ(suite[1].prompt.instruction, "\"\"\"\nAdd one.\nassert f(1) == 2\nassert f(y) == 2\n\"\"\"\n");
  EXPECT_EQ(suite[1].before, "");
  EXPECT_EQ(suite[1].tests, "y = 1\nassert f(1) == 2\nassert f(y) == 2\n");
}

TEST_F(SuiteTest, ACompletionIsAWholePromptWithItsAnswerAndAllFields) {
  const std::string line = R"({"prompt": "<03>17", "completion": "031217", "task_id": "degree 1/0317", "more": [1]})";
  const Suite suite = read_suite(put("suite.jsonl", line + "\n"));
  ASSERT_EQ(suite.problems.size(), 1u);
  EXPECT_FALSE(suite.runs_programs || suite.has_template);
  EXPECT_EQ(suite.problems[0].task_id, "degree 1/0317");
  EXPECT_EQ(suite.problems[0].prompt.instruction, "<03>17");
  EXPECT_TRUE(suite.problems[0].prompt.has_whole_prompt);
  EXPECT_EQ(suite.problems[0].answer, "031217");
  EXPECT_EQ(suite.problems[0].line, line) << "for a judge, also what is not read";
  const std::string without = R"({"completion": "0317"})"
                              "\n";
  expect_has(refused([&] { read_suite(put("bad.jsonl", without)); }), {"line 1", "prompt"});
}

TEST_F(SuiteTest, SanitizedProblemsOfMbppNameTheTaskPromptAndListImports) {
  const auto suite =
      read_suite(put("suite.jsonl", R"({"source_file": "a", "task_id": 2, "prompt": "Add one.", "code": "",)"
                                    R"( "test_imports": ["import math"], "test_list": ["assert f(1) == 2"]})"
                                    "\n"
                                    R"({"task_id": 3, "prompt": "b", "test_imports": [], "test_list": ["c"]})"
                                    "\n"));
  ASSERT_EQ(suite.problems.size(), 2u);
  EXPECT_EQ(suite.problems[0].prompt.instruction, "\"\"\"\nAdd one.\nassert f(1) == 2\n\"\"\"\n");
  EXPECT_EQ(suite.problems[0].tests, "import math\nassert f(1) == 2\n");
  EXPECT_EQ(suite.problems[1].tests, "c\n");
}

TEST_F(SuiteTest, SuitesAndSamplesMayBePacked) {
  const auto suite = read_suite(put("suite.jsonl.gz", gzip(human_eval)));
  ASSERT_EQ(suite.problems.size(), 1u);
  const std::string sample = R"({"task_id": "HumanEval/0", "completion": "x"})";
  EXPECT_EQ(read_samples(put("a.jsonl.zst", zstd(sample)), suite.problems).size(), 1u);
}

TEST_F(SuiteTest, SolutionsAreWholePrograms) {
  const auto problems = read_suite(put("suite.jsonl", mbpp)).problems;
  const auto samples =
      read_samples(put("samples.jsonl",
                       "{\"task_id\": \"Mbpp/11\", \"solution\": \"a\"}\n{\"task_id\": 11, \"completion\": \"b\"}\n"),
                   problems);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_TRUE(samples[0].is_whole);
  EXPECT_EQ(samples[0].completion, "a");
  EXPECT_FALSE(samples[1].is_whole);
}

TEST_F(SuiteTest, AllMistakesAreReported) {
  const auto file =
      put("suite.jsonl", human_eval + human_eval +
                             "{\"task_id\": 1}\n{\"task_id\": \"a\", \"entry_point\": 3, \"prompt\": \"\"}\n"
                             "{\"task_id\": \"b\", \"text\": \"t\", \"test_list\": [4]}\nno json\n");
  expect_has(refused([&] { read_suite(file); }),
             {"line 2", "\"HumanEval/0\" is already on line 1", "line 3", "cannot be judged", "line 4",
              "found the number 3, wanted a string", "test", "line 5", "has the format of MBPP", "line 6"});
  const std::string wrong_test =
      refused([&] { read_suite(put("tests.jsonl", "{\"task_id\": \"b\", \"text\": \"t\", \"test_list\": [4]}\n")); });
  EXPECT_EQ(wrong_test.find("test_list"), wrong_test.rfind("test_list")) << "once: " << wrong_test;
  expect_has(refused([&] { read_suite(put("empty.jsonl", "\n")); }), {"contains no problem"});
  expect_has(refused([&] { read_suite(folder_ / "none.jsonl"); }), {"none.jsonl"});
}

TEST_F(SuiteTest, SamplesBelongToProblems) {
  const std::string second = std::string(human_eval).replace(human_eval.find("/0"), 2, "/9");
  const auto suite = read_suite(put("suite.jsonl", human_eval + second)).problems;
  const auto samples = read_samples(put("good.jsonl",
                                        "{\"task_id\": \"HumanEval/9\", \"completion\": \"x\"}\n"
                                        "{\"task_id\": \"HumanEval/0\", \"completion\": \"\"}\n"),
                                    suite);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].problem, 1u);
  EXPECT_EQ(samples[1].completion, "");
  expect_has(
      refused([&] {
        read_samples(
            put("bad.jsonl", "{\"task_id\": \"HumanEvl/0\", \"completion\": \"x\"}\n{\"task_id\": \"HumanEval/0\"}\n"),
            suite);
      }),
      {"line 1", "\"HumanEvl/0\" is not in the suite; did you mean \"HumanEval/0\"?", "line 2", "completion"});
}

TEST_F(SuiteTest, OfRecordsHasTheFirstRightAnswerOfEachProblem) {
  const Suite suite = read_suite(
      put("records.jsonl", R"({"instruction": "1+1", "input": "", "output": "#3", "task_id": "x", "is_correct": false})"
                           "\n"
                           R"({"instruction": "1+1", "input": "", "output": "#2", "task_id": "x", "is_correct": true})"
                           "\n"
                           R"({"instruction": "1+1", "input": "", "output": "two", "task_id": "x", "is_correct": true})"
                           "\n"
                           R"({"instruction": "2+2", "input": "in Z", "output": "#4"})"
                           "\n"));
  EXPECT_FALSE(suite.runs_programs);
  EXPECT_TRUE(suite.stops.empty());
  ASSERT_EQ(suite.problems.size(), 2u);
  EXPECT_EQ(suite.problems[0].task_id, "x");
  EXPECT_EQ(suite.problems[0].prompt.instruction, "1+1");
  EXPECT_FALSE(suite.problems[0].prompt.has_whole_prompt);
  EXPECT_EQ(suite.problems[1].prompt.input, "in Z");
  EXPECT_EQ(suite.problems[0].answer, "#2");
  EXPECT_EQ(suite.problems[1].task_id, "line 4");
}

TEST_F(SuiteTest, AnswersToOneTaskHaveOneQuestion) {
  const std::string suite = R"({"question": "1+1?", "answer": "2", "task_id": "sums"})"
                            "\n"
                            R"({"question": "1+1?", "answer": "two", "task_id": "sums"})"
                            "\n";
  EXPECT_EQ(read_suite(put("suite.jsonl", suite)).problems.size(), 1u);
  const std::string other = R"({"question": "2+2?", "answer": "4", "task_id": "sums"})"
                            "\n";
  expect_has(refused([&] { read_suite(put("other.jsonl", suite + other)); }),
             {"line 3", "\"sums\" is already on line 1, with another question"});
}

TEST_F(SuiteTest, RefusesFieldsOnWhichAnAnswerDependsAndThatAreNotAsked) {
  const auto refusal_of = [&](const std::string& fields) {
    return refused([&] { read_suite(put("suite.jsonl", "{" + fields + "}\n")); });
  };
  const std::string unread = "none: it is not read, and the answer may depend on it";
  expect_has(refusal_of(R"("question": "Who?", "answer": "Ann", "context": "Ann won.")"), {"context", unread});
  expect_has(refusal_of(R"("question": "Which?", "answer": "B", "choices": ["x", "y"])"), {"choices", unread});
  expect_has(refusal_of(R"("question": "Which?", "answer": "B", "input": "x or y")"), {"input", unread});
  expect_has(refusal_of(R"("instruction": "Who?", "output": "Ann", "history": [["a", "b"]])"), {"history", unread});
  const std::string empty = R"({"question": "1+1?", "answer": "2", "context": "", "history": []})"
                            "\n";
  EXPECT_EQ(read_suite(put("suite.jsonl", empty)).problems.size(), 1u);
}

const std::string question = R"({"role": "user", "content": "1+1?"})";

TEST_F(SuiteTest, OfMessagesHasTheAnswerInAFieldOrAsTheLastMessage) {
  const Suite suite =
      read_suite(put("chats.jsonl", R"({"messages": [{"role": "system", "content": "Add."}, )" + question +
                                        R"(], "answer": "2"})"
                                        "\n"
                                        R"({"tools": [{"b": 1, "a": 2}], "task_id": "x", "messages": [)" +
                                        question +
                                        R"(, {"role": "assistant", "content": "2."}]})"
                                        "\n"));
  EXPECT_FALSE(suite.runs_programs);
  EXPECT_TRUE(suite.has_template);
  ASSERT_EQ(suite.problems.size(), 2u);
  const Problem &first = suite.problems[0], &second = suite.problems[1];
  EXPECT_EQ(first.answer, "2");
  EXPECT_EQ(first.task_id, "line 1");
  EXPECT_EQ(first.prompt.messages.size(), 2u);
  EXPECT_EQ(second.answer, "2.");
  EXPECT_EQ(second.prompt.messages.dump(), "[" + OrderedJson::parse(question).dump() + "]");
  EXPECT_EQ(second.prompt.tools.dump(), R"([{"b":1,"a":2}])") << "in the order of the file";
}

TEST_F(SuiteTest, OfMessagesMayHaveTheTestsOfHumanEvalOrMbpp) {
  const std::string messages = R"({"messages": [)" + question + "], ";
  const Suite suite = read_suite(put("chats.jsonl", messages +
                                                        R"("test": "t", "entry_point": "f", "task_id": "a"})"
                                                        "\n" +
                                                        messages +
                                                        R"("test_list": ["c"], "test_imports": ["i"]})"
                                                        "\n"));
  EXPECT_TRUE(suite.runs_programs);
  EXPECT_TRUE(suite.stops.empty());
  ASSERT_EQ(suite.problems.size(), 2u);
  EXPECT_EQ(suite.problems[0].tests, "t\ncheck(f)\n");
  EXPECT_EQ(suite.problems[0].entry_point, "f");
  EXPECT_EQ(suite.problems[1].tests, "i\nc\n");
  EXPECT_EQ(suite.problems[1].task_id, "line 2");
  EXPECT_FALSE(suite.problems[1].answer.has_value());
}

TEST_F(SuiteTest, OfQuestionsHasTheirAnswers) {
  const Suite suite = read_suite(put("questions.jsonl", R"({"question": "1+1?", "answer": "2"})"
                                                        "\n"));
  EXPECT_EQ(suite.problems.at(0).prompt.messages.dump(), R"([{"role":"user","content":"1+1?"}])");
  EXPECT_EQ(suite.problems.at(0).answer, "2");
  EXPECT_TRUE(suite.has_template);
}

TEST_F(SuiteTest, RefusesMessagesThatAskOrAnswerNothing) {
  const std::string answer = R"({"role": "assistant", "content": "2"})";
  expect_has(
      refused([&] {
        read_suite(put("chats.jsonl", R"({"messages": [)" + question + "]}\n" + R"({"messages": [)" + answer + "]}\n" +
                                          R"({"messages": [)" + question + ", " + answer + R"(], "answer": "2"})" +
                                          "\n" + R"({"messages": [{"role": "user"}], "answer": "2"})" + "\n" +
                                          R"({"question": "1+1?", "answer": "2"})" + "\n"));
      }),
      {"line 1: messages[0].role: found the string \"user\", wanted \"assistant\": the expected answer",
       "line 2: messages[0].role",
       "line 3: messages[1].role: found the string \"assistant\", wanted a message "
       "that the assistant answers",
       "line 4: messages[0].content: missing, wanted a string",
       "line 5: has the format of questions, unlike earlier lines"});
}

TEST_F(SuiteTest, CountsNullAsMissing) {
  const auto one = [&](const std::string& line) { return read_suite(put("suite.jsonl", line)).problems.at(0); };
  const Problem record = one(R"({"instruction": "1+1", "input": null, "output": "2", "task_id": null,)"
                             R"( "is_correct": null, "test_list": null, "entry_point": null})");
  EXPECT_EQ(record.task_id, "line 1");
  EXPECT_EQ(record.prompt.instruction, "1+1");
  const Problem of_mbpp = one(R"({"task_id": 1, "text": null, "prompt": "Add.", "test_setup_code": null,)"
                              R"( "test_imports": null, "test_list": ["c"], "entry_point": null})");
  EXPECT_EQ(of_mbpp.tests, "c\n");
  EXPECT_EQ(of_mbpp.prompt.instruction, "\"\"\"\nAdd.\nc\n\"\"\"\n");
  const auto samples = read_samples(put("samples.jsonl", R"({"task_id": 1, "completion": null, "solution": "a"})"
                                                         "\n"
                                                         R"({"task_id": 1, "completion": "b", "solution": null})"),
                                    {of_mbpp});
  EXPECT_TRUE(samples.at(0).is_whole);
  EXPECT_FALSE(samples.at(1).is_whole);
  expect_has(refused([&] { one(R"({"task_id": null, "prompt": "p", "test_list": ["c"]})"); }), {"task_id: missing"});
}

TEST_F(SuiteTest, RefusesARecordWithoutItsFields) {
  expect_has(refused([&] {
               read_suite(put("records.jsonl", R"({"instruction": "1+1", "is_correct": "yes"})"
                                               "\n"));
             }),
             {"output", "missing", "is_correct", "true or false"});
}

}  // namespace
}  // namespace wmtp
