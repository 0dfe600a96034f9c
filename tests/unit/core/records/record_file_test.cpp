#include "core/records/record_file.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

class RecordFile : public DataTest {
 protected:
  std::vector<Record> records(const std::string& text, const RecordNeeds& needs = {}) const {
    std::vector<Record> found;
    RecordMistakes mistakes;
    for_each_record(write("a.jsonl", text), needs, mistakes, [&](const Record& record) { found.push_back(record); });
    mistakes.raise();
    return found;
  }
  /// What is told, with the folder's name left out.
  std::string refused(const std::string& text, const RecordNeeds& needs = {}) const {
    std::string told = error_of(ExitStatus::data, [&] { records(text, needs); });
    for (size_t at; (at = told.find(folder_.string() + "/")) != std::string::npos;)
      told.erase(at, folder_.string().size() + 1);
    return told;
  }
};

const std::string whole = R"({"instruction": "Add.", "input": "1 2", "output": "3", "task_id": "t/1", )"
                          R"("is_correct": true, "metadata": {"difficulty": 4}})";

TEST_F(RecordFile, ReadsEveryField) {
  const auto found = records(whole + "\n", {true, true});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].instruction, "Add.");
  EXPECT_EQ(found[0].input, "1 2");
  EXPECT_EQ(found[0].output, "3");
  EXPECT_EQ(found[0].correct, true);
  EXPECT_EQ(found[0].difficulty, 4);
  EXPECT_GE(found[0].problem, 0);
}

TEST_F(RecordFile, WantsInstructionAndOutputOnly) {
  const auto found = records(
      "{\"instruction\": \"\", \"output\": \"x\", \"input\": null}\n\n  \r\n"
      "{\"output\": \"y\", \"instruction\": \"a\", \"other\": [1]}");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].output, "y");
  EXPECT_EQ(found[1].problem, -1);
  EXPECT_EQ(found[1].correct, std::nullopt);
  EXPECT_NE(found[0].identity, found[1].identity);
}

TEST_F(RecordFile, RefusesNumbersThatAreOutOfRange) {
  const std::string begin = R"({"instruction": "a", "output": "x", "task_id": )", told = "a.jsonl:1:1: found a number";
  for (const std::string& number : {std::string("1e999"), std::string("-1e999"), std::string(5000, '9')})
    EXPECT_TRUE(has(refused(begin + number + "}\n"), told + " that is out of range")) << number;
}

TEST_F(RecordFile, GivesAnswersToOneProblemOneNumber) {
  const std::string begin = R"({"instruction": "a", "output": "x", "task_id": )";
  const auto found = records(begin + "\"7\"}\n" + begin + "7}\n" + begin + "\"8\"}\n");
  EXPECT_EQ(found[0].problem, found[1].problem);
  EXPECT_NE(found[0].problem, found[2].problem);
}

TEST_F(RecordFile, HoldsOutAboutOneProblemInTwenty) {
  std::string text;
  for (int i = 0; i < 2000; ++i)
    text += R"({"instruction": "a", "output": "x", "task_id": ")" + std::to_string(i) + "\"}\n";
  const auto found = records(text);
  const auto held = std::count_if(found.begin(), found.end(), is_held_out);
  EXPECT_GT(held, 60);
  EXPECT_LT(held, 140);
}

TEST_F(RecordFile, TellsACutLineWithItsPlace) {
  EXPECT_TRUE(
      has(refused(whole + "\n" + whole.substr(0, 40)), "a.jsonl:2:41: the line ends in the middle of a record"));
}

TEST_F(RecordFile, TellsWhatIsNotJsonWithItsColumn) {
  const auto told = refused("{\"instruction\": Add}\n");
  EXPECT_TRUE(has(told, "a.jsonl:1:17: not JSON: syntax error")) << told;
}

TEST_F(RecordFile, CountsColumnsInCharacters) {
  const auto told = refused("{\"instruction\": \"\xc3\xa9\xc3\xa9\", x}\n");
  EXPECT_TRUE(has(told, "a.jsonl:1:23: not JSON")) << told;
}

TEST_F(RecordFile, TellsBytesThatAreNotUtf8) {
  const auto told = refused("{\"instruction\": \"a\xff\"}\n");
  EXPECT_TRUE(has(told, "a.jsonl:1:19: not UTF-8: found the byte 0xff")) << told;
}

TEST_F(RecordFile, TellsEveryFieldThatIsMissingOrOfAnotherType) {
  const auto told = refused(R"({"instruction": 3, "is_correct": "true"})"
                            "\n"
                            R"({"output": "x"})"
                            "\n[1]\n"
                            R"("text")"
                            "\n",
                            {true, true});
  for (const auto* part :
       {"a.jsonl:1: instruction: found the number 3, wanted a text", "a.jsonl:1: output: missing, wanted a text",
        "a.jsonl:1: is_correct: found the text \"true\", wanted true or false, without quotes",
        "a.jsonl:1: metadata.difficulty: missing", "a.jsonl:2: instruction: missing", "a.jsonl:2: is_correct: missing",
        "data.select", "a.jsonl:3:1: found a list, wanted an object", "a.jsonl:4:1: found the text \"text\""})
    EXPECT_TRUE(has(told, part)) << part << "\nin:\n" << told;
}

TEST_F(RecordFile, RefusesIsCorrectAsTextWhoeverReadsIt) {
  EXPECT_TRUE(has(refused(R"({"instruction": "a", "output": "b", "is_correct": "yes"})"), "is_correct: found"));
}

TEST_F(RecordFile, RefusesOtherTypesOfDifficultyAndProblem) {
  const std::string begin = R"({"instruction": "a", "output": "b", )";
  const auto told = refused(begin +
                                R"("metadata": {"difficulty": 1.5}})"
                                "\n" +
                                begin +
                                R"("metadata": [1]})"
                                "\n" +
                                begin +
                                R"("metadata": {"difficulty": -1}})"
                                "\n" +
                                begin + R"("task_id": true})",
                            {false, true});
  for (const auto* part :
       {"1: metadata.difficulty: found the number 1.5, wanted a whole number", "2: metadata: found a list",
        "3: metadata.difficulty: found the number -1", "4: task_id: found true, wanted a text or a whole number"})
    EXPECT_TRUE(has(told, part)) << part << "\nin:\n" << told;
}

TEST_F(RecordFile, RefusesAKeyThatStandsTwiceAndNestingWithoutEnd) {
  EXPECT_TRUE(has(refused(R"({"output": "a", "instruction": "b", "output": "c"})"), "output: found twice"));
  EXPECT_TRUE(has(refused("{\"metadata\": " + std::string(100000, '[')), "nested deeper"));
}

TEST_F(RecordFile, TellsTwentyMistakesAndStops) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "x\n";
  const auto told = refused(text);
  EXPECT_TRUE(has(told, "a.jsonl:20:1:") && has(told, "no more are told")) << told;
  EXPECT_FALSE(has(told, "a.jsonl:21:"));
}

TEST_F(RecordFile, NeverHoldsAHugeLine) {
  const auto file = write("huge.jsonl", "");
  std::filesystem::resize_file(file, 100'000'000);
  std::ofstream(file, std::ios::binary | std::ios::app) << "\n" << whole << "\n";
  const pid_t child = fork();
  if (child == 0) {
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    RecordMistakes mistakes;
    int found = 0;
    for_each_record(file, {}, mistakes, [&](const Record&) { ++found; });
    getrusage(RUSAGE_SELF, &after);
    std::string told;
    try {
      mistakes.raise();
    } catch (const Error& error) {
      told = error.what();
    }
    const bool small = after.ru_maxrss - before.ru_maxrss < 64 * 1024;
    _exit(!small                                                                    ? 1
          : found != 1                                                              ? 2
          : !has(told, "huge.jsonl:1: a line of 95.4 MiB, wanted at most 16.0 MiB") ? 3
                                                                                    : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: memory, 2: records behind it, 3: message";
}

TEST_F(RecordFile, MakesAlpacasPrompts) {
  Record record;
  record.instruction = "Add.";
  EXPECT_EQ(prompt_of(record, "alpaca"),
            "Below is an instruction that describes a task. Write a response that appropriately completes the "
            "request.\n\n### Instruction:\nAdd.\n\n### Response:");
  record.input = "1 2";
  EXPECT_EQ(prompt_of(record, "alpaca"),
            "Below is an instruction that describes a task, paired with an input that provides further context. Write "
            "a response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 2\n\n"
            "### Response:");
  EXPECT_EQ(prompt_of(record, "plain"), "Add.\n1 2\n");
  record.input.clear();
  EXPECT_EQ(prompt_of(record, "plain"), "Add.\n");
}

}  // namespace
}  // namespace wmtp
