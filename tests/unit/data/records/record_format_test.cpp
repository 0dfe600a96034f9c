#include "data/records/record_format.hpp"

#include "data/records/record_file.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

class RecordFormat : public DataTest {
 protected:
  std::vector<Record> records(const std::string& text, const std::string& format = "") const {
    std::vector<Record> found;
    RecordMistakes mistakes;
    for_each_record(write("a.jsonl", text), {.format = format}, mistakes,
                    [&](const Record& record) { found.push_back(record); });
    mistakes.raise();
    return found;
  }
  std::string refused(const std::string& text, const std::string& format = "") const {
    return error_of(ExitStatus::data, [&] { records(text, format); });
  }
};

const std::string hi = R"({"role": "user", "content": "Hi"})";
const std::string hello = R"({"role": "assistant", "content": "Hello."})";
const std::string no = R"({"role": "assistant", "content": "No."})";

TEST_F(RecordFormat, IsRecognisedByTheFieldsOfTheFirstRecords) {
  const std::map<std::string, std::string> lines{{"instructions", R"({"instruction": "a", "output": "b"})"},
                                                 {"messages", R"({"messages": [], "id": 3})"},
                                                 {"conversations", R"({"conversations": []})"},
                                                 {"completions", R"({"prompt": "a", "completion": "b"})"},
                                                 {"preferences", R"({"prompt": "a", "chosen": "b", "rejected": "c"})"}};
  for (const auto& [format, line] : lines)
    EXPECT_EQ(recognised_format(write("a.jsonl", "\nno object\n{}\n" + line + "\n")), format);
  EXPECT_EQ(recognised_format(write("a.jsonl", "no object\n")), "instructions") << "reading the lines says why";
  EXPECT_EQ(recognised_format(write("a.jsonl", "{\"output\": \"b\"}\n")), "instructions") << "a field is missing";
}

TEST_F(RecordFormat, ThatIsUnknownOrAmbiguousIsRefusedOnce) {
  std::string unknown, ambiguous;
  for (int i = 0; i < 30; ++i) {
    unknown += "{\"query\": \"a\", \"answer\": \"b\"}\n";
    ambiguous += R"({"messages": [)" + hi + R"(], "chosen": [)" + hi + R"(], "rejected": [)" + hi + "]}\n";
  }
  std::string message = refused(unknown);
  EXPECT_TRUE(has(message, "its first records have the fields answer and query, wanted those of one format"));
  EXPECT_TRUE(has(message, "jq -c '{instruction: .query, output: .answer}'"));
  EXPECT_FALSE(has(message, "\n"));
  message = refused(ambiguous);
  EXPECT_TRUE(has(message, "can be read as messages and preferences; choose one with data.format")) << message;
  EXPECT_FALSE(has(message, "\n"));
  EXPECT_TRUE(has(refused("[{\"instruction\": \"a\"}]\n"), "found a JSON list, wanted JSON lines"));
}

TEST_F(RecordFormat, OfAPublishedDataSetIsRefusedWithTheCommandThatConvertsIt) {
  const std::pair<const char*, const char*> lines[]{
      {"gsm8k", R"({"question": "a", "answer": "b"})"},
      {"humaneval", R"({"task_id": "a", "prompt": "b", "canonical_solution": "c", "test": "d", "entry_point": "e"})"},
      {"mbpp", R"({"task_id": 1, "text": "b", "code": "c", "test_list": []})"},
      {"codecontests", R"({"name": "a", "description": "b", "solutions": []})"}};
  for (const auto& [name, line] : lines) {
    const std::string message = refused(std::string(line) + "\n");
    EXPECT_TRUE(has(message, std::string(" --from ") + name + " -o ") && has(message, ".records.jsonl")) << message;
  }
}

TEST_F(RecordFormat, OfGsm8kHasNoOtherFieldThatAConversionWouldLose) {
  const std::string message = refused(R"({"question": "a", "context": "CREATE TABLE t", "answer": "b"})"
                                      "\n");
  EXPECT_TRUE(has(message, "jq -c '{instruction: .question, input: .context, output: .answer}'")) << message;
  EXPECT_FALSE(has(message, "--from")) << message;
  EXPECT_TRUE(has(refused(R"({"instruction": "a", "context": "b", "response": "c", "category": "d"})"
                          "\n"),
                  "jq -c '{instruction: .instruction, input: .context, output: .response}'"));
}

TEST_F(RecordFormat, RefusesWhatTheAnswerIsAbout) {
  const std::pair<const char*, const char*> lines[]{
      {"options", R"({"instruction": "a", "output": "C", "options": ["x", "y"]})"},
      {"suffix", R"({"prompt": "a", "completion": "b", "suffix": "c"})"},
      {"initial_reason_steps", R"({"prompt": "a", "chosen": "b", "rejected": "c", "initial_reason_steps": "d"})"}};
  for (const auto& [name, line] : lines)
    EXPECT_TRUE(has(refused(std::string(line) + "\n"), std::string("a.jsonl:1: ") + name + ": ")) << line;
}

TEST_F(RecordFormat, OfToolsMayBeAListInAString) {
  const auto found = records(R"({"messages": [)" + hi + ", " + hello + R"(], "tools": "[{\"name\": \"f\"}]"})" + "\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tools, OrderedJson::parse(R"([{"name": "f"}])"));
  EXPECT_TRUE(has(refused(R"({"messages": [)" + hi + ", " + hello + R"(], "tools": "f"})" + "\n"),
                  "tools: found the string \"f\", wanted a list of descriptions of tools"));
}

TEST_F(RecordFormat, OfShareGptBecomesMessages) {
  const auto found = records(
      R"({"system": "Be kind.", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello."}]})"
      "\n"
      R"({"conversations": [)" +
      hi + ", " + hello + "]}\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].messages.dump(), R"([{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"},)"
                                      R"({"role":"assistant","content":"Hello."}])");
  EXPECT_EQ(found[1].messages.size(), 2u);
  const auto named =
      records(R"({"conversations": [{"role": "human", "content": "Hi"}, {"role": "gpt", "content": "Hello."}]})"
              "\n");
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].messages, found[1].messages);
}

TEST_F(RecordFormat, OfCompletionsIsAWholePromptOrMessages) {
  const auto found = records(R"({"prompt": "a", "completion": "b"})"
                             "\n"
                             R"({"prompt": [)" +
                             hi + R"(], "completion": [)" + hello + "]}\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].has_whole_prompt);
  EXPECT_EQ(format_prompt(found[0], "none") + "|" + found[0].output, "a|b");
  EXPECT_EQ(found[1].prompt_messages, 1u);
  EXPECT_EQ(found[1].messages.size(), 2u);
}

TEST_F(RecordFormat, OfPreferencesIsARightAndAWrongAnswerToOneProblem) {
  const std::string chosen = R"("chosen": [)" + hello + R"(], "rejected": [)" + no + "]}\n";
  const auto found = records(R"({"prompt": "a", "chosen": "b", "rejected": "c"})"
                             "\n"
                             R"({"prompt": "a", "chosen": "d", "rejected": "e"})"
                             "\n"
                             R"({"prompt": "Hi", )" +
                             chosen + R"({"prompt": [)" + hi + "], " + chosen + R"({"prompt": "Hi", "chosen": [)" + hi +
                             ", " + hello + R"(], "rejected": [)" + hi + ", " + no + "]}\n");
  ASSERT_EQ(found.size(), 10u);
  for (size_t i = 0; i < found.size(); i += 2) {
    EXPECT_EQ(found[i].correct, true);
    EXPECT_EQ(found[i + 1].correct, false);
    EXPECT_GE(found[i].problem, 0);
    EXPECT_EQ(found[i].problem, found[i + 1].problem);
    if (i >= 4) {
      EXPECT_EQ(found[i].messages, OrderedJson::parse("[" + hi + ", " + hello + "]")) << i;
      EXPECT_EQ(found[i + 1].messages[1]["content"], "No.");
      EXPECT_EQ(found[i].prompt_messages, 1u);
    }
  }
  EXPECT_EQ(found[1].output, "c");
  EXPECT_NE(found[0].problem, found[2].problem);
  EXPECT_EQ(found[0].identity, found[2].identity) << "one prompt is held out with all of its pairs";
}

TEST_F(RecordFormat, CountsNullAsMissing) {
  const std::pair<const char*, std::string> lines[]{
      {"instructions", R"({"messages": null, "instruction": "a", "output": "b", "input": null, "task_id": null})"},
      {"messages", R"({"messages": [)" + hi + R"(, {"role": "assistant", "content": "a", "weight": null,)" +
                       R"( "tool_calls": null}], "chosen": null, "rejected": null, "tools": null})"},
      {"conversations", R"({"conversations": [{"role": null, "content": null, "from": "human", "value": "a"}, )" +
                            hello + R"(], "system": null})"},
      {"completions", R"({"prompt": "a", "completion": "b", "instruction": null, "output": null})"},
      {"preferences", R"({"prompt": null, "messages": null, "chosen": [)" + hi + "," + hello + R"(], "rejected": [)" +
                          hi + "," + no + "]}"}};
  for (const auto& [format, line] : lines) {
    EXPECT_EQ(recognised_format(write("b.jsonl", line)), format);
    EXPECT_EQ(records(line).size(), std::string(format) == "preferences" ? 2u : 1u) << format;
  }
  EXPECT_TRUE(has(refused(R"({"messages": [{"role": "assistant", "content": null, "tool_calls": null}]})"),
                  "messages[0].content: missing, wanted a string"));
}

TEST_F(RecordFormat, ReportsEachMistakeInAMessage) {
  const auto message =
      refused("{\"messages\": []}\n{\"messages\": [" + hi + "]}\n{\"messages\": [3]}\n" +
                  R"({"messages": [{"role": 1, "content": "a"}, {"role": "user", "content": [{"type": "text"}]}]})"
                  "\n"
                  R"({"messages": [{"role": "assistant", "content": null}]})"
                  "\n",
              "messages");
  for (const char* part : {"a.jsonl:1: messages: found a list, wanted a list of at least one message",
                           "a.jsonl:2: messages: found a list, wanted a message of the assistant",
                           "a.jsonl:3: messages[0]: found the number 3, wanted a message",
                           "a.jsonl:4: messages[0].role: found the number 1, wanted a string",
                           "a.jsonl:4: messages[1].content: found a list, wanted a string",
                           "a.jsonl:5: messages[0].content: missing, wanted a string"})
    EXPECT_TRUE(has(message, part)) << part << "\nin:\n" << message;
  EXPECT_TRUE(has(refused(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}]})"),
                  "messages[0].weight: found the number 0, wanted 1 or none"));
  EXPECT_TRUE(has(refused(R"({"conversations": [{"from": "bing", "value": "a"}]})"),
                  "conversations[0].from: found the string \"bing\", wanted \"human\", \"gpt\" or \"system\""));
  EXPECT_TRUE(has(refused(R"({"chosen": "b", "rejected": "c"})"), "prompt: missing, wanted a string"));
  EXPECT_TRUE(has(refused(R"({"prompt": "a", "chosen": "b", "rejected": [)" + no + "]}"),
                  "rejected: found a list, wanted a string"));
  EXPECT_TRUE(has(refused(R"({"prompt": "a", "chosen": "b", "rejected": "b"})"),
                  "rejected: found the string \"b\", wanted another answer than chosen"));
  EXPECT_TRUE(has(refused(R"({"chosen": [)" + hi + ", " + no + R"(], "rejected": [)" + hi + ", " + no + "]}"),
                  "a message of the assistant that only this answer has"));
}

TEST_F(RecordFormat, OfPreferencesHasOneQuestion) {
  const std::string system = R"({"role": "system", "content": "Be brief."})";
  for (const std::string& other : {system + ", " + hi, R"({"role": "user", "content": "Bye"})" + std::string()})
    EXPECT_TRUE(has(refused(R"({"chosen": [)" + hi + ", " + hello + R"(], "rejected": [)" + other + ", " + no + "]}"),
                    "another answer to the messages of chosen, found another question"))
        << other;
}

TEST_F(RecordFormat, ThatOtherProgramsWouldTrainDifferentlyIsRefused) {
  const std::string user = R"({"from": "human", "value": "a"})";
  const std::pair<std::string, std::string> lines[]{
      {R"({"conversations": [)" + user + R"(, {"from": "gpt", "value": "b", "weight": 0}]})",
       "conversations[1].weight: found the number 0, wanted 1 or none"},
      {R"({"messages": [)" + hi + R"(, {"role": "assistant", "content": "a", "train": false}]})",
       "messages[1].train: found false, wanted 1 or none"},
      {R"({"messages": [{"role": "user", "content": "a", "loss": true}, )" + hello + "]}",
       "messages[0].loss: found true, wanted 1 or none"},
      {R"({"messages": [)" + hi + R"(, {"role": "assistant", "content": "a", "training": false}]})",
       "messages[1].training: found false, wanted 1 or none"},
      {R"({"messages": [)" + hi + R"(, {"role": "assistant", "content": "a", "loss_mask": 0}]})",
       "messages[1].loss_mask: found the number 0, wanted 1 or none"},
      {R"({"messages": [)" + hi + R"(, {"role": "assistant", "content": "a", "masked": true}]})",
       "messages[1].masked: found true, wanted false or none"},
      {R"({"context": "C", "instruction": "a", "output": "b"})", "context: found the string \"C\", wanted none"},
      {R"({"context": "C", "prompt": "a", "completion": "b"})", "context: found the string \"C\", wanted none"},
      {R"({"system": "S", "conversations": [{"from": "system", "value": "T"}, )" + hello + "]}",
       "system: found the string \"S\", wanted none: the first message is a system prompt, too"},
      {R"({"tools": ["f"], "messages": [)" + hi + ", " + hello + "]}",
       "tools: found a list, wanted a list of descriptions of tools, each an object"},
      {R"({"prompt": "a", "completion": "b", "label": 0})", "label: found the number 0, wanted true or none"},
      {R"({"prompt": "a", "completion": "b", "label": "False"})", "label: found the string \"False\", wanted true"},
      {R"({"prompt": "Bye", "chosen": [)" + hi + ", " + hello + R"(], "rejected": [)" + hi + ", " + no + "]}",
       "prompt: found the string \"Bye\", wanted none, or what chosen contains before its answer"},
      {R"({"prompt": [)" + no + R"(], "chosen": [)" + hi + ", " + hello + R"(], "rejected": [)" + hi + ", " + no + "]}",
       "prompt: found a list, wanted none, or what chosen contains before its answer"},
      {R"({"chosen": [)" + hi + ", " + hello + R"(], "rejected": [{"role": "user", "content": "Bye"}, )" + no + "]}",
       "rejected: found a list, wanted another answer to the messages of chosen"},
      {R"({"system": "S", "messages": [)" + hi + ", " + hello + "]}",
       "system: found the string \"S\", wanted none: with data.format \"messages\" it is not read"},
      {R"({"system": "S", "instruction": "a", "output": "b"})", "system: found the string \"S\", wanted none"},
      {R"({"history": [["a", "b"]], "instruction": "a", "output": "b"})", "history: found a list, wanted none"},
      {R"({"system_prompt": "S", "instruction": "a", "output": "b"})",
       "system_prompt: found the string \"S\", wanted none"},
      {R"({"functions": [{}], "messages": [)" + hi + ", " + hello + "]}", "functions: found a list, wanted none"},
      {R"({"tools": [{}], "instruction": "a", "output": "b"})", "tools: found a list, wanted none"},
      {R"({"tools": [{}], "prompt": "a", "completion": "b"})", "tools: found a list, wanted none"},
      {R"({"tools": [{}], "prompt": "a", "chosen": "b", "rejected": "c"})", "tools: found a list, wanted none"},
      {R"({"images": ["a.png"], "messages": [)" + hi + ", " + hello + "]}", "images: found a list, wanted none"},
      {R"({"image": "a.png", "instruction": "a", "output": "b"})", "image: found the string \"a.png\", wanted none"},
      {R"({"documents": [{"text": "a"}], "messages": [)" + hi + ", " + hello + "]}",
       "documents: found a list, wanted none"},
      {R"({"messages": [{"role": "user", "content": "a", "images": ["a.png"]}, )" + hello + "]}",
       "messages[0].images: found a list, wanted none"},
      {R"({"label": false, "messages": [)" + hi + ", " + hello + "]}", "label: found false, wanted true or none"},
      {R"({"kto_tag": 0, "instruction": "a", "output": "b"})", "kto_tag: found the number 0, wanted true or none"},
      {R"({"chat_template_kwargs": {"a": 1}, "messages": [)" + hi + ", " + hello + "]}",
       "chat_template_kwargs: found an object, wanted none"},
      {R"({"prompt": "a", "completion": "b", "label": false})", "label: found false, wanted true or none"},
      {R"({"messages": [)" + hi + R"(, {"role": "assistant", "content": "a", "n": 123456789012345678901234567890}]})",
       "found an integer of more than 64 bits, wanted a string"}};
  for (const auto& [line, why] : lines) EXPECT_TRUE(has(refused(line), why)) << line << "\n" << refused(line);
}

TEST_F(RecordFormat, FieldsThatChangeNothingAreRead) {
  const auto found =
      records(R"({"system": "", "history": [], "images": [], "instruction": "a", "output": "b", "label": 0})"
              "\n");
  EXPECT_EQ(found.size(), 1u);
  const auto weighted =
      records(R"({"system": "S", "conversations": [{"from": "human", "value": "a", "train": false, "weight": 1}, )"
              R"({"from": "gpt", "value": "b", "weight": 1.0, "train": true}]})"
              "\n");
  ASSERT_EQ(weighted.size(), 1u);
  EXPECT_EQ(weighted[0].messages.size(), 3u);
  const auto masked = records(R"({"messages": [{"role": "user", "content": "Hi", "mask": true, "weight": 0}, )"
                              R"({"role": "assistant", "content": "Hello.", "mask": false, "loss_mask": 1,)"
                              R"( "weight": 1}], "context": "C"})");
  const auto plain = records(R"({"messages": [)" + hi + ", " + hello + "]}");
  ASSERT_EQ(masked.size(), 1u);
  EXPECT_EQ(masked[0].messages, plain[0].messages) << "no template has weights";
  EXPECT_EQ(masked[0].identity, plain[0].identity);
}

TEST_F(RecordFormat, FieldsOfMessagesThatAreNullAreLeftOut) {
  const auto found =
      records(R"({"messages": [)" + hi +
              R"(, {"role": "assistant", "content": null, "tool_calls": [{"name": "f"}], "name": null}, )" +
              R"({"role": "assistant", "content": "a", "tool_calls": null}]})" + "\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].messages[1].dump(), R"({"role":"assistant","tool_calls":[{"name":"f"}]})");
  EXPECT_EQ(found[0].messages[2].dump(), R"({"role":"assistant","content":"a"})");
  EXPECT_EQ(record_texts(found[0]), (std::vector<std::string>{"Hi", "a"}));
}

TEST_F(RecordFormat, ToolsComeWithEveryListOfMessages) {
  const std::string tools = R"("tools": [{"z": 1}])";
  for (const std::string& line :
       {R"({"messages": [)" + hi + ", " + hello + "], " + tools + "}",
        R"({"prompt": [)" + hi + R"(], "completion": [)" + hello + "], " + tools + "}",
        R"({"prompt": [)" + hi + R"(], "chosen": [)" + hello + R"(], "rejected": [)" + no + "], " + tools + "}"})
    for (const Record& record : records(line)) EXPECT_EQ(record.tools.dump(), R"([{"z":1}])") << line;
  EXPECT_EQ(records(R"({"tools": [], "messages": [)" + hi + ", " + hello + "]}")[0].tools.dump(), "[]")
      << "a template can tell it from none";
}

TEST_F(RecordFormat, KeepsOtherFieldsOfMessages) {
  const auto found = records(R"({"tools": [{"z": 1, "a": 2}], "messages": [)" + hi +
                             R"(, {"role": "assistant", "tool_calls": [{"name": "f"}]}, )" + hello + "]}\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tools.dump(), R"([{"z":1,"a":2}])");
  EXPECT_EQ(found[0].messages[1]["tool_calls"][0]["name"], "f");
}

}  // namespace
}  // namespace wmtp
