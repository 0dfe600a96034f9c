// Weights in records: of all tokens of a record or a message, and of spans of its answer's characters.
#include "data/records/record_weights.hpp"

#include "base/text.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

class RecordWeights : public DataTest {
 protected:
  std::vector<Record> records(const std::string& text, bool weights = true) const {
    std::vector<Record> found;
    RecordMistakes mistakes;
    for_each_record(write("a.jsonl", text), {.weights = weights}, mistakes,
                    [&](const Record& record) { found.push_back(record); });
    mistakes.raise();
    return found;
  }
  std::string refused(const std::string& text, bool weights = true) const {
    return error_of(ExitStatus::data, [&] { records(text, weights); });
  }
  /// "0.5 [0,2) 3", bytes.
  static std::string text_of(const AnswerWeights& answer) {
    std::string text = printed("%g", double(answer.others));
    for (const auto& span : answer.spans) text += printed(" [%zu,%zu) %g", span.begin, span.end, double(span.weight));
    return text;
  }
};

TEST_F(RecordWeights, AreOfTheAnswerAndOfItsCharacters) {
  const auto found = records(R"({"instruction": "q", "output": "abc"})"
                             "\n"
                             R"({"instruction": "q", "output": "abc", "weight": 0.5})"
                             "\n"
                             R"({"instruction": "q", "output": "aüßc", "weight": 0, "weights": [)"
                             R"({"start": 2, "end": 4, "weight": 3}, {"start": 1, "end": 2, "weight": 2e-1}]})"
                             "\n"
                             R"({"instruction": "q", "output": "ab", "weights": [], "weight": null})"
                             "\n");
  ASSERT_EQ(found.size(), 4U);
  for (const Record& record : found) ASSERT_EQ(record.weights.size(), 1U);
  EXPECT_EQ(text_of(found[0].weights[0]), "1");
  EXPECT_FALSE(found[0].has_weights);
  EXPECT_EQ(text_of(found[1].weights[0]), "0.5");
  EXPECT_EQ(found[1].weight, 0.5F);
  EXPECT_TRUE(found[1].has_weights);
  EXPECT_EQ(text_of(found[2].weights[0]), "0 [1,3) 0.2 [3,6) 3") << "in their order, in bytes";
  EXPECT_EQ(text_of(found[3].weights[0]), "1");
  const auto completion =
      records(R"({"prompt": "q", "completion": "ab", "weights": [{"start": 0, "end": 2, "weight": 2}]})"
              "\n");
  EXPECT_EQ(text_of(completion[0].weights[0]), "1 [0,2) 2");
}

TEST_F(RecordWeights, AreOfEachAnswerOfAChat) {
  const std::string answers =
      R"({"role": "assistant", "content": "one", "weight": 0}, {"role": "user", "content": "b"},)"
      R"( {"role": "assistant", "content": "two", "weights": [{"start": 0, "end": 3, "weight": 2}]})";
  const std::string chat = R"({"messages": [{"role": "user", "content": "a", "weight": 0}, )" + answers +
                           R"(], "weight": 0.25})"
                           "\n";
  const auto found = records(chat);
  ASSERT_EQ(found[0].weights.size(), 2U);
  EXPECT_EQ(text_of(found[0].weights[0]), "0");
  EXPECT_EQ(text_of(found[0].weights[1]), "0.25 [0,3) 2");
  EXPECT_TRUE(found[0].weighs_messages);
  for (const auto& message : found[0].messages) EXPECT_EQ(message.size(), 2U) << "templates write no weights";
  EXPECT_TRUE(has(refused(chat, false), "a.jsonl:1: messages[1].weight: found the number 0, wanted 1 or none"));
  const auto continued =
      records(R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
              R"( {"role": "user", "content": "c"}], "completion": [{"role": "assistant",)"
              R"( "content": "d", "weight": 3}]})"
              "\n");
  ASSERT_EQ(continued[0].weights.size(), 1U) << "of the completion only";
  EXPECT_EQ(text_of(continued[0].weights[0]), "3");
  const auto shared =
      records(R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "weight": 2}]})"
              "\n");
  EXPECT_EQ(text_of(shared[0].weights[0]), "2");
}

TEST_F(RecordWeights, AreNotReadUnlessTheyAreAskedFor) {
  const auto found = records(R"({"instruction": "q", "output": "abc", "weight": "70 kg", "weights": [1]})"
                             "\n",
                             false);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].weights.empty());
  const auto chat = records(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b",)"
                            R"( "weights": 7}]})"
                            "\n",
                            false);
  EXPECT_EQ(chat[0].messages[1].size(), 2U) << "templates write no weights";
}

TEST_F(RecordWeights, ThatAreWrongAreAllRefused) {
  const std::string message =
      refused(R"({"instruction": "q", "output": "abc", "weight": -1})"
              "\n"
              R"({"instruction": "q", "output": "abc", "weight": 1e39})"
              "\n"
              R"({"instruction": "q", "output": "abc", "weight": "1"})"
              "\n"
              R"({"instruction": "q", "output": "abc", "weights": {"start": 0}})"
              "\n"
              R"({"instruction": "q", "output": "abc", "weights": [3, {"start": 3, "end": 4, "weight": 1},)"
              R"( {"start": 1, "end": 1, "weight": 1}, {"start": 0, "end": 4, "weight": 1}, {"start": -1, "end": 2}]})"
              "\n"
              R"({"instruction": "q", "output": "abc", "weights": [{"start": 1, "end": 3, "weight": 1},)"
              R"( {"start": 0, "end": 2, "weight": 1}]})"
              "\n");
  for (const char* part :
       {"a.jsonl:1: weight: found the number -1, wanted a number that is not negative",
        "a.jsonl:2: weight: found the number 1e+39", "a.jsonl:3: weight: found the string \"1\"",
        "a.jsonl:4: weights: found an object, wanted a list of", "a.jsonl:5: weights[0]: found the number 3",
        "a.jsonl:5: weights[1].start: found the number 3, wanted a whole number from 0 and below 3, the number of "
        "characters of the answer",
        "a.jsonl:5: weights[2].end: found the number 1, wanted a whole number above 1 and up to 3",
        "a.jsonl:5: weights[3].end: found the number 4", "a.jsonl:5: weights[4].start: found the number -1",
        "a.jsonl:5: weights[4].weight: missing",
        "a.jsonl:6: weights[0].start: found the number 1, wanted at least 2, the end of weights[1]"})
    EXPECT_TRUE(has(message, part)) << part << " in\n" << message;
}

TEST_F(RecordWeights, HaveAPlaceOfTheirOwnInEachFormat) {
  const std::string spans = R"("weights": [{"start": 0, "end": 1, "weight": 1}])";
  const std::string user = R"({"role": "user", "content": "a")", answer = R"({"role": "assistant", "content": "b"})";
  EXPECT_TRUE(has(refused("{\"messages\": [" + user + "}, " + answer + "], " + spans + "}\n"),
                  "a.jsonl:1: weights: found a list, wanted none: they are characters of an answer"));
  EXPECT_TRUE(has(refused("{\"messages\": [" + user + ", " + spans + "}, " + answer + "]}\n"),
                  "messages[0].weights: found a list, wanted none: only answers of the assistant have weights"));
  EXPECT_TRUE(
      has(refused(R"({"prompt": "a", "chosen": "b", "rejected": "c", )" + spans + "}\n"), "a.jsonl:1: weights"));
}

}  // namespace
}  // namespace wmtp
