#include <cstdlib>
#include <sstream>

#include "base/json.hpp"
#include "data/records/import_records.hpp"
#include "data/text/jsonl_reader.hpp"
#include "support/data_fixture.hpp"
#include "support/source_tree.hpp"

namespace wmtp {
namespace {
namespace fs = std::filesystem;

class Import : public DataTest {
 protected:
  std::vector<Json> records(const std::string& from, const fs::path& raw, const std::string& language = "python3") {
    imported_ = import_records(from, language, raw, at("out/records.jsonl"));
    std::vector<Json> found;
    std::istringstream lines(read(at("out/records.jsonl")));
    for (std::string line; std::getline(lines, line);) found.push_back(Json::parse(line));
    return found;
  }
  /// The error, without the folder's name, for a file that must be refused without writing anything.
  std::string refused(const std::string& from, const std::string& text, const std::string& language = "python3") {
    const fs::path raw = write("raw.jsonl", text);
    std::string message = error_of(ExitStatus::data, [&] { records(from, raw, language); });
    EXPECT_TRUE(fs::is_empty(at("out"))) << message;
    for (size_t place; (place = message.find(folder_.string() + "/")) != std::string::npos;)
      message.erase(place, folder_.string().size() + 1);
    return message;
  }
  void SetUp() override {
    DataTest::SetUp();
    fs::create_directory(at("out"));
  }
  Imported imported_;
};

TEST_F(Import, ReadsHumanEval) {
  const auto raw = write("raw.jsonl", R"({"task_id": "HumanEval/7", "prompt": "def f(x):\n", "entry_point": "f",)"
                                      R"( "canonical_solution": "    return x\n", "test": "def check(f): pass"})"
                                      "\n");
  const auto found = records("humaneval", raw);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], Json::parse(R"({"instruction": "def f(x):\n", "input": "", "output": "    return x\n",
    "task_id": "HumanEval/7", "is_correct": true, "metadata": {"source": "humaneval"}})"));
}

TEST_F(Import, ReadsMbppWithItsTestsAsInput) {
  const auto raw = write("raw.jsonl", R"({"text": "Write f.", "code": "def f(): pass", "task_id": 11,)"
                                      R"( "test_setup_code": "", "test_list": ["assert f() > 1", "assert f() < 9"]})");
  const auto found = records("mbpp", raw);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], Json::parse(R"({"instruction": "Write f.", "input": "assert f() > 1\nassert f() < 9",
    "output": "def f(): pass", "task_id": "mbpp/11", "is_correct": true, "metadata": {
  "source" : "mbpp"}
  })"));
}

TEST_F(Import, ReadsGsm8kAndKeepsItsCalculatorMarks) {
  const auto raw = write("test.jsonl",
                         "\n"
                         R"({"question": "2 and 2?", "answer": "It is <<2+2=4>>4.\n#### 4"})"
                         "\r\n"
                         R"({"question": "Thé?", "answer": "#### 1"})");
  const auto found = records("gsm8k", raw);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], Json::parse(R"({"instruction": "2 and 2?", "input": "", "output": "It is <<2+2=4>>4.\n#### 4",
    "task_id": "gsm8k/test/2", "is_correct": true, "metadata": {"source": "gsm8k"}})"));
  EXPECT_EQ(found[1]["task_id"], "gsm8k/test/3");
  EXPECT_EQ(found[1]["instruction"], "Thé?");
}

TEST_F(Import, ReadsBothFormsOfCodeContests) {
  const auto raw = write(
      "raw.jsonl",
      R"({"name": "1A", "source": 2, "description": "Sum.", "difficulty": 7, "generated_tests": [{"input": "1"}],)"
      R"( "solutions": [{"language": 3, "solution": "a"}, {"language": 2, "solution": "b"},)"
      R"( {"language": "PYTHON3", "solution": "c"}], "incorrect_solutions": [{"language": 3, "solution": "d"}]})"
      "\n"
      R"({"name": "1A", "source": 7, "description": "Other.", "difficulty": 0, "cf_tags": [],)"
      R"( "solutions": {"language": [4, 3], "solution": ["e", "f"]},)"
      R"( "incorrect_solutions": {"language": [], "solution": []}})");
  const auto found = records("codecontests", raw);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0], Json::parse(R"({"instruction": "Sum.", "input": "", "output": "a", "task_id": "codecontests/2/1A",
    "is_correct": true, "metadata": {"source": "codecontests", "difficulty": 7}})"));
  EXPECT_EQ(found[1]["output"], "c");
  EXPECT_EQ(found[2]["output"], "d");
  EXPECT_EQ(found[2]["is_correct"], false);
  EXPECT_EQ(found[2]["task_id"], found[0]["task_id"]);
  EXPECT_EQ(found[3]["task_id"], "codecontests/7/1A");
  EXPECT_FALSE(found[3]["metadata"].contains("difficulty"));
  EXPECT_EQ(imported_.problems, 2);
  EXPECT_EQ(imported_.right, 3);
  EXPECT_EQ(imported_.wrong, 1);

  EXPECT_EQ(records("codecontests", raw, "cpp").at(0)["output"], "b");
  EXPECT_EQ(records("codecontests", raw, "java").at(0)["output"], "e");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { records("codecontests", raw, "python2"); }),
                  "found 2 problems, none with a solution in python2"));
}

TEST_F(Import, CountsNullAsMissing) {
  const auto found =
      records("codecontests",
              write("raw.jsonl", R"({"name": "1A", "source": null, "description": "Sum.", "difficulty": null,)"
                                 R"( "solutions": [{"language": 3, "solution": "a"}], "incorrect_solutions": null})"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], Json::parse(R"({"instruction": "Sum.", "input": "", "output": "a", "task_id": "codecontests/0/1A",
    "is_correct": true, "metadata": {"source": "codecontests"}})"));
  EXPECT_EQ(detect_import_source(Json::parse(R"({"question": "a", "answer": null})")), "");
}

TEST_F(Import, ReportsAllMistakesByLineAndField) {
  EXPECT_EQ(refused("gsm8k", R"({"question": "a"})"
                             "\n"
                             R"({"question": 3, "answer": ["b"]})"
                             "\n"
                             R"({"question": "a", "answer": "b"})"
                             "\n"
                             R"({"question": null, "answer": {}})"),
            "raw.jsonl: line 1: answer: missing, wanted a string\n"
            "raw.jsonl: line 2: question: found the number 3, wanted a string\n"
            "raw.jsonl: line 2: answer: found a list, wanted a string\n"
            "raw.jsonl: line 4: question: missing, wanted a string\n"
            "raw.jsonl: line 4: answer: found an object, wanted a string");
  EXPECT_EQ(refused("mbpp", R"({"task_id": "11", "text": true, "code": "", "test_list": ["a", 1]})"),
            "raw.jsonl: line 1: task_id: found the string \"11\", wanted an integer\n"
            "raw.jsonl: line 1: text: found true, wanted a string\n"
            "raw.jsonl: line 1: test_list[1]: found the number 1, wanted a string");
  EXPECT_EQ(refused("humaneval", "{}"),
            "raw.jsonl: line 1: task_id: missing, wanted a string\n"
            "raw.jsonl: line 1: prompt: missing, wanted a string\n"
            "raw.jsonl: line 1: canonical_solution: missing, wanted a string");
}

TEST_F(Import, ReportsMistakesWithinSolutions) {
  const auto message = [&](const std::string& rest) {
    return refused("codecontests", R"({"name": "n", "description": "d", )" + rest + "}");
  };
  const std::string forms =
      ", wanted a list of {language, solution}, or {language: [...], solution: [...]} of one length";
  EXPECT_EQ(message(R"("solutions": "a", "difficulty": 30)"),
            "raw.jsonl: line 1: difficulty: found the number 30, wanted a number from 0 to 29\n"
            "raw.jsonl: line 1: solutions: found the string \"a\"" +
                forms);
  EXPECT_EQ(message(R"("solutions": {"language": [3], "solution": []})"),
            "raw.jsonl: line 1: solutions: found an object" + forms);
  EXPECT_EQ(message(R"("solutions": [{"language": 3}])"),
            "raw.jsonl: line 1: solutions[0].solution: missing, wanted a string");
  EXPECT_EQ(
      message(R"("solutions": [{"language": 3, "solution": "a"}, {"language": 5, "solution": 1}],)"
              R"( "incorrect_solutions": {"language": ["perl"], "solution": ["b"]})"),
      "raw.jsonl: line 1: solutions[1].language: found the number 5, wanted a number from 0 to 4 or a name like "
      "PYTHON3\n"
      "raw.jsonl: line 1: solutions[1].solution: found the number 1, wanted a string\n"
      "raw.jsonl: line 1: incorrect_solutions[0].language: found the string \"perl\", wanted a number from 0 to 4 "
      "or a name like PYTHON3");
}

TEST_F(Import, ReportsWhereALineIsNotJson) {
  EXPECT_EQ(refused("gsm8k", R"({"question": "a", "answer": "b"})"
                             "\n"
                             R"({"question": "a", "answ)"),
            "raw.jsonl: line 2, column 24: the line ends in the middle of its object, wanted a complete one (`jq -c .` "
            "writes an object of several lines on one)");
  EXPECT_EQ(refused("gsm8k", R"({"é": "a"; "answer": "b"})"),
            "raw.jsonl: line 1, column 10: found invalid JSON from here on, wanted one object per line");
  EXPECT_EQ(refused("gsm8k", "{\"question\": \"\xff\", \"answer\": \"b\"}"),
            "raw.jsonl: line 1, column 15: found byte 0xff, wanted UTF-8");
  EXPECT_EQ(refused("gsm8k", "3"), "raw.jsonl: line 1: found the number 3, wanted an object");
  EXPECT_EQ(refused("gsm8k", R"({"question": "a", "question": "b", "answer": "c"})"),
            "raw.jsonl: line 1: question: found twice in an object, wanted once");
  EXPECT_EQ(refused("gsm8k", R"({"question": )" + std::string(100, '[')),
            "raw.jsonl: line 1: nested more than 32 deep");
  EXPECT_EQ(refused("gsm8k", R"({"question": 1e999, "answer": "c"})"),
            "raw.jsonl: line 1: found a number that is out of range");
}

TEST_F(Import, NamesTheFormatOfAFileThatIsNotJsonl) {
  EXPECT_TRUE(has(refused("humaneval", "\x1f\x8b\x08"), "found a truncated gzip file"));
  EXPECT_TRUE(has(refused("codecontests", "PAR1\x15"), "found a Parquet file"));
  EXPECT_TRUE(has(refused("mbpp", "[\n{}\n]"),
                  "found a JSON list, wanted JSON lines; convert it first: wmtp-host data convert"));
  EXPECT_TRUE(has(refused("gsm8k", " \n"), "contains no record: found 0 problems"));
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { records("gsm8k", at("none.jsonl")); }), "does not exist"));
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { records("gsm8k", folder_); }), "is a folder"));
}

TEST_F(Import, StopsAtTwentyMistakes) {
  std::string text;
  for (int line = 0; line < 100; ++line) text += "{}\n";
  const std::string message = refused("gsm8k", text);
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 20) << message;
  EXPECT_TRUE(has(message, "line 10: ") && !has(message, "line 11: ") &&
              has(message, "the rest of the file was not read"));
}

TEST_F(Import, RefusesAnEndlessLineAndContinuesAfterIt) {
  const fs::path raw = write("raw.jsonl", std::string(5000, ' '));
  fs::resize_file(raw, max_jsonl_line_bytes + 1);  // a sparse file of NULs
  std::ofstream(raw, std::ios::app) << "\n{}\n";
  const std::string message = error_of(ExitStatus::data, [&] { records("gsm8k", raw); });
  EXPECT_TRUE(has(message, "line 1: found a line of 256.0 MiB, wanted at most 256.0 MiB")) << message;
  EXPECT_TRUE(has(message, "line 2: question: missing")) << message;
}

/// Published files, if present: in WMTP_SHARED_DATA, or in a folder next to the source tree.
fs::path published(const std::string& name) {
  const char* variable = std::getenv("WMTP_SHARED_DATA");
  const fs::path neighbour = source_tree().parent_path() / "shared/data";
  return (variable && *variable ? fs::path(variable) : neighbour) / name;
}

TEST_F(Import, ReadsHumanEvalAsPublished) {
  const fs::path raw = published("HumanEval.jsonl");
  if (!fs::exists(raw)) GTEST_SKIP() << raw << " does not exist";
  const auto found = records("humaneval", raw);
  ASSERT_EQ(found.size(), 164u);
  EXPECT_EQ(found[163]["task_id"], "HumanEval/163");
  EXPECT_TRUE(has(found[0]["instruction"], "def has_close_elements("));
  EXPECT_TRUE(has(found[0]["output"], "return False"));
}

TEST_F(Import, ReadsGsm8kAsPublished) {
  const fs::path raw = published("gsm8k_test.jsonl");
  if (!fs::exists(raw)) GTEST_SKIP() << raw << " does not exist";
  const auto found = records("gsm8k", raw);
  ASSERT_EQ(found.size(), 1319u);
  EXPECT_EQ(found[0]["task_id"], "gsm8k/gsm8k_test/1");
  EXPECT_TRUE(has(found[0]["output"], "<<16-3-4=9>>9 duck eggs"));
  EXPECT_TRUE(has(found[1318]["output"], "\n#### "));
}

}  // namespace
}  // namespace wmtp
