#include "data/records/record_file.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

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
  /// The error without the folder's name.
  std::string refused(const std::string& text, const RecordNeeds& needs = {}) const {
    std::string message = error_of(ExitStatus::data, [&] { records(text, needs); });
    for (size_t at; (at = message.find(folder_.string() + "/")) != std::string::npos;)
      message.erase(at, folder_.string().size() + 1);
    return message;
  }
};

const std::string complete = R"({"instruction": "Add.", "input": "1 2", "output": "3", "task_id": "t/1", )"
                             R"("is_correct": true, "metadata": {"difficulty": 4}})";

TEST_F(RecordFile, ReadsEveryField) {
  const auto found = records(complete + "\n", {true, true});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].instruction, "Add.");
  EXPECT_EQ(found[0].input, "1 2");
  EXPECT_EQ(found[0].output, "3");
  EXPECT_EQ(found[0].correct, true);
  EXPECT_EQ(found[0].difficulty, 4);
  EXPECT_GE(found[0].problem, 0);
}

TEST_F(RecordFile, RequiresInstructionAndOutputOnly) {
  const auto found = records(
      "{\"instruction\": \"\", \"output\": \"x\", \"input\": null}\n\n  \r\n"
      "{\"output\": \"y\", \"instruction\": \"a\", \"other\": [1]}");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].output, "y");
  EXPECT_EQ(found[1].problem, -1);
  EXPECT_EQ(found[1].correct, std::nullopt);
  EXPECT_NE(found[0].identity, found[1].identity);
}

TEST_F(RecordFile, WithoutATaskIdTheQuestionIdentifiesARecordHoweverItsLineIsWritten) {
  const auto found = records(
      "{\"prompt\": \"a\", \"completion\": \"b\"}\n"
      "{\"completion\":\"other\",\"prompt\":\"\\u0061\",\"weight\":2,\"source\":\"x\"}\r\n"
      "{\"prompt\": \"b\", \"completion\": \"b\"}\n"
      "{\"prompt\": \"\", \"completion\": \"text\"}\n"
      "{\"prompt\": \"\", \"completion\": \"another\"}\n");
  ASSERT_EQ(found.size(), 5u);
  EXPECT_EQ(found[0].identity, found[1].identity);
  EXPECT_EQ(found[1].problem, -1);
  EXPECT_EQ(std::set({found[0].identity, found[2].identity, found[3].identity, found[4].identity}).size(), 4u);
  const auto chats =
      records(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
              "\n"
              R"({"messages":[{"content":"a","role":"user"},{"role":"assistant","content":"c"}],"weight":2})"
              "\n"
              R"({"messages": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "b"}]})"
              "\n"
              R"({"messages": [{"role": "user", "content": "a", "weight": 0}, {"role": "assistant", "content": "d"}]})"
              "\n");
  ASSERT_EQ(chats.size(), 4u);
  EXPECT_EQ(chats[0].identity, chats[1].identity);
  EXPECT_EQ(chats[0].identity, chats[3].identity);
  EXPECT_NE(chats[0].identity, chats[2].identity);
  const auto pair = records("{\"prompt\": \"\", \"chosen\": \"a\", \"rejected\": \"b\"}\n");
  ASSERT_EQ(pair.size(), 2u);
  EXPECT_EQ(pair[0].identity, pair[1].identity) << "a pair that asks nothing is held out as a whole";
}

TEST_F(RecordFile, RefusesNumbersThatAreOutOfRange) {
  const std::string begin = R"({"instruction": "a", "output": "x", "task_id": )", message = "a.jsonl:1: found a number";
  for (const std::string& number : {std::string("1e999"), std::string("-1e999"), std::string(5000, '9')})
    EXPECT_TRUE(has(refused(begin + number + "}\n"), message + " that is out of range")) << number;
}

TEST_F(RecordFile, GivesAllAnswersToAProblemTheSameNumber) {
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

TEST_F(RecordFile, ReportsTheColumnWhereALineIsTruncated) {
  EXPECT_TRUE(has(refused(complete + "\n" + complete.substr(0, 40)),
                  "a.jsonl:2:41: the line ends in the middle of its object"));
}

TEST_F(RecordFile, ReportsTheColumnOfInvalidJson) {
  const auto message = refused("{\"instruction\": Add}\n");
  EXPECT_TRUE(has(message, "a.jsonl:1:17: found invalid JSON from here on")) << message;
}

TEST_F(RecordFile, CountsColumnsInCharacters) {
  const auto message = refused("{\"instruction\": \"\xc3\xa9\xc3\xa9\", x}\n");
  EXPECT_TRUE(has(message, "a.jsonl:1:23: found invalid JSON")) << message;
}

TEST_F(RecordFile, ReportsBytesThatAreNotUtf8) {
  const auto message = refused("{\"instruction\": \"a\xff\"}\n");
  EXPECT_TRUE(has(message, "a.jsonl:1:19: found byte 0xff, wanted UTF-8")) << message;
}

TEST_F(RecordFile, ReportsEveryFieldThatIsMissingOrOfTheWrongType) {
  const auto message = refused(R"({"instruction": 3, "is_correct": "true"})"
                               "\n"
                               R"({"output": "x"})"
                               "\n[1]\n"
                               R"("text")"
                               "\n",
                               {true, true});
  for (const auto* part :
       {"a.jsonl:1: instruction: found the number 3, wanted a string", "a.jsonl:1: output: missing, wanted a string",
        "a.jsonl:1: is_correct: found the string \"true\", wanted true or false, without quotes",
        "a.jsonl:1: metadata.difficulty: missing", "a.jsonl:2: instruction: missing", "a.jsonl:2: is_correct: missing",
        "data.select", "a.jsonl:3: found a list, wanted an object", "a.jsonl:4: found the string \"text\""})
    EXPECT_TRUE(has(message, part)) << part << "\nin:\n" << message;
}

TEST_F(RecordFile, RefusesIsCorrectAsTextEvenIfItIsNotNeeded) {
  EXPECT_TRUE(has(refused(R"({"instruction": "a", "output": "b", "is_correct": "yes"})"), "is_correct: found"));
}

TEST_F(RecordFile, RefusesWrongTypesOfDifficultyAndProblem) {
  const std::string begin = R"({"instruction": "a", "output": "b", )";
  const auto message = refused(begin +
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
       {"1: metadata.difficulty: found the number 1.5, wanted an integer", "2: metadata: found a list",
        "3: metadata.difficulty: found the number -1", "4: task_id: found true, wanted a string or an integer"})
    EXPECT_TRUE(has(message, part)) << part << "\nin:\n" << message;
}

TEST_F(RecordFile, RefusesDuplicateKeysAndUnboundedNesting) {
  EXPECT_TRUE(has(refused(R"({"output": "a", "instruction": "b", "output": "c"})"), "output: found twice"));
  EXPECT_TRUE(has(refused(R"({"messages": [{"role": "assistant", "content": "a", "content": "b"}]})"),
                  "content: found twice in an object, wanted once"));
  EXPECT_TRUE(has(refused("{\"metadata\": " + std::string(100000, '[')), "nested more than 32 deep"));
}

TEST_F(RecordFile, ReportsTwentyMistakesAndStops) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "x\n";
  const auto message = refused(text);
  EXPECT_TRUE(has(message, "a.jsonl:20:1:") && has(message, "further mistakes are not listed")) << message;
  EXPECT_FALSE(has(message, "a.jsonl:21:"));
}

TEST_F(RecordFile, NeverHoldsAHugeLineInMemory) {
  const auto file = write("huge.jsonl", std::string(5000, 'x'));
  std::filesystem::resize_file(file, 100'000'000);
  std::ofstream(file, std::ios::binary | std::ios::app) << "\n" << complete << "\n";
  const pid_t child = fork();
  if (child == 0) {
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    RecordMistakes mistakes;
    int found = 0;
    for_each_record(file, {}, mistakes, [&](const Record&) { ++found; });
    getrusage(RUSAGE_SELF, &after);
    std::string message;
    try {
      mistakes.raise();
    } catch (const Error& error) {
      message = error.what();
    }
    const bool small = after.ru_maxrss - before.ru_maxrss < 64 * 1024;
    _exit(!small                                                                       ? 1
          : found != 1                                                                 ? 2
          : !has(message, "huge.jsonl:1: a line of 95.4 MiB, wanted at most 16.0 MiB") ? 3
                                                                                       : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: memory, 2: records after it, 3: message";
}

TEST_F(RecordFile, MakesAlpacasPrompts) {
  Record record;
  record.instruction = "Add.";
  EXPECT_EQ(format_prompt(record, "alpaca"),
            "Below is an instruction that describes a task. Write a response that appropriately completes the "
            "request.\n\n### Instruction:\nAdd.\n\n### Response:");
  record.input = "1 2";
  EXPECT_EQ(format_prompt(record, "alpaca"),
            "Below is an instruction that describes a task, paired with an input that provides further context. Write "
            "a response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 2\n\n"
            "### Response:");
  EXPECT_EQ(format_prompt(record, "plain"), "Add.\n1 2\n");
  EXPECT_EQ(format_prompt(record, "none"), "Add.\n1 2");
  record.input.clear();
  EXPECT_EQ(format_prompt(record, "plain"), "Add.\n");
  EXPECT_EQ(format_prompt(record, "none"), "Add.");
}

}  // namespace
}  // namespace wmtp
