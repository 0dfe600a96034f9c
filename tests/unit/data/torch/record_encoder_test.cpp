// Prompts are encoded as training encodes the beginning of the same record; the templates of models are tested in
// tests/parity/chats_test.py.
#include "data/torch/record_encoder.hpp"

#include <algorithm>

#include "data/text/json_lines.hpp"
#include "support/data_fixture.hpp"
#include "tokenizer/torch/tokenizers.hpp"

namespace wmtp {
namespace {

class RecordEncoding : public DataTest {
 protected:
  std::string text_of(const std::vector<int32_t>& ids) const { return {ids.begin(), ids.end()}; }
  EncodedPrompt prompt(const std::string& name, const Prompt& record) const {
    return RecordEncoder({name, "", TemplateSetting::command_line}, *tokenizer_).encode_prompt(record);
  }
  /// The ids before the answer, as training makes them.
  std::vector<int32_t> trained(const std::string& name, const Record& record) const {
    const EncodedRecord encoded = RecordEncoder({name, ""}, *tokenizer_).encode(record);
    return {encoded.ids.begin(), encoded.ids.begin() + encoded.turns.back()};
  }
  std::string refused(const std::string& name, const Record& record) const {
    try {
      prompt(name, record);
    } catch (const LineMistake& mistake) {
      return mistake.message;
    }
    return "was taken";
  }
  std::unique_ptr<Tokenizer> tokenizer_ = byte_tokenizer();
};

Record chat(const std::string& messages) {
  Record record;
  record.messages = OrderedJson::parse(messages);
  return record;
}

TEST_F(RecordEncoding, ByEveryTemplateThePromptIsTheBeginningOfTheTrainedRecord) {
  Record record;
  record.instruction = "Add.";
  record.input = "1 2";
  record.output = "3";
  for (const std::string name : {"alpaca", "plain", "none", "chatml"}) {
    const EncodedPrompt asked = prompt(name, record);
    EXPECT_EQ(asked.ids, trained(name, record)) << name;
    EXPECT_EQ(asked.stop, name == "chatml" ? "<|im_end|>" : "") << name;
    EXPECT_FALSE(asked.end) << "no special token of this tokenizer";
  }
}

TEST_F(RecordEncoding, OfSeveralTurnsThePromptEndsWhereTheNextAnswerBegins) {
  const std::string turns = R"({"role": "system", "content": "s"}, {"role": "user", "content": "a"},)"
                            R"( {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"})";
  const EncodedPrompt asked = prompt("chatml", chat("[" + turns + "]"));
  EXPECT_EQ(asked.ids, trained("chatml", chat("[" + turns + R"(, {"role": "assistant", "content": "d"}])")));
  EXPECT_TRUE(text_of(asked.ids).ends_with("c<|im_end|>\n<|im_start|>assistant\n"));
}

TEST_F(RecordEncoding, AQuestionIsAnInstructionForAModelOfInstructions) {
  Record record;
  record.instruction = "Add.";
  const Record question = chat(R"([{"role": "user", "content": "Add."}])");
  EXPECT_EQ(prompt("alpaca", question).ids, trained("alpaca", record));
  EXPECT_NE(refused("alpaca", chat(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "a"}])"))
                .find("neither a system prompt nor several turns"),
            std::string::npos);
}

TEST_F(RecordEncoding, AModelWithoutAChatTemplateNamesTheOthers) {
  const std::string message =
      error_of(ExitStatus::data, [&] { prompt("", chat(R"([{"role": "user", "content": "a"}])")); });
  EXPECT_TRUE(has(message, "--template chatml, alpaca or plain")) << message;
}

/// The weights of the tokens of the byte tokenizer, each once for a run of equal ones.
std::vector<float> runs_of(const std::vector<float>& weights) {
  std::vector<float> runs;
  for (const float weight : weights)
    if (runs.empty() || runs.back() != weight) runs.push_back(weight);
  return runs;
}

TEST_F(RecordEncoding, WeightsAreOfTheTokensOfTheAnswer) {
  Record record;
  record.instruction = "q";
  record.output = "abcd";
  EXPECT_TRUE(RecordEncoder({"plain", ""}, *tokenizer_).encode(record).weights.empty()) << "not read";
  record.weight = 0.5F;
  record.weights = {{0.25F, {{1, 2, 3}, {2, 4, 0}}}};
  for (const std::string name : {"plain", "none", "alpaca", "chatml"}) {
    const EncodedRecord encoded = RecordEncoder({name, ""}, *tokenizer_).encode(record);
    ASSERT_EQ(encoded.weights.size(), encoded.ids.size()) << name;
    EXPECT_EQ(runs_of(encoded.weights), (std::vector<float>{0.5F, 0.25F, 3, 0, 0.25F})) << name;
    const auto answer = encoded.weights.begin() + encoded.turns[0];
    EXPECT_EQ((std::vector<float>{answer, answer + 5}), (std::vector<float>{0.25F, 3, 0, 0, 0.25F})) << name;
  }
}

// A SentencePiece model's normalizer_spec may be repeated: the last value of a field counts.
struct Normalizer {
  std::string name, bytes;
};
const std::vector<Normalizer> normalizers{
    {"none", ""},
    {"add_dummy_prefix, as Llama's", std::string("\x1a\x02\x18\x01", 4)},
    {"add_dummy_prefix and remove_extra_whitespaces, as T5's", std::string("\x1a\x04\x18\x01\x20\x01", 6)}};

TEST_F(RecordEncoding, AnAnswerContinuesItsPromptWithoutASpaceThatIsInNoFile) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "def other(value): return value + " + std::to_string(i) + "\n";
  train_bpe(whole_files({write("a.py", text)}), 320, folder_ / "tokenizer.model");
  for (const auto& [name, bytes] : normalizers) {
    tokenizer_ = sentencepiece_tokenizer(write("changed.model", read(folder_ / "tokenizer.model") + bytes));
    const std::string begin = bytes.empty() ? "" : " ";
    for (const auto& [asked, answer] :
         std::vector<std::pair<std::string, std::string>>{{"def o", "ther(value)"}, {"def", " other"}, {"", "def"}}) {
      if (asked == "def o" && !tokenizer_->encodes_continuations()) continue;  // a token spans both
      Record record;
      record.has_whole_prompt = true;
      record.instruction = asked;
      record.output = answer;
      record.weight = 0.5F;
      record.weights = {{1, {{answer.size() - 3, answer.size(), 2}}}};
      const EncodedRecord encoded = RecordEncoder({"none", ""}, *tokenizer_).encode(record);
      const auto first = encoded.ids.begin() + encoded.turns[0];
      EXPECT_EQ(encoded.ids.back(), tokenizer_->end_of_text()) << name;
      EXPECT_EQ(tokenizer_->decode(encoded.ids), begin + asked + answer) << name;
      EXPECT_EQ(tokenizer_->decode({first, encoded.ids.end()}), (asked.empty() ? begin : "") + answer) << name;
      EXPECT_EQ(prompt("none", record).ids, trained("none", record)) << name;
      ASSERT_EQ(encoded.weights.size(), encoded.ids.size()) << name;
      EXPECT_EQ(std::ranges::count(encoded.weights, 0.5F), encoded.turns[0]) << name;
      std::string weighed;
      for (size_t i = 0; i < encoded.ids.size(); ++i)
        if (encoded.weights[i] == 2) weighed += tokenizer_->decode({encoded.ids[i]});
      EXPECT_TRUE(weighed.ends_with(answer.substr(answer.size() - 3))) << name << ": " << weighed;
    }
  }
}

TEST_F(RecordEncoding, WeightsAreOfEachAnswerOfAChat) {
  Record record = chat(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "xay"},)"
                       R"( {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}])");
  record.weights = {{2, {{1, 2, 5}}}, {0, {}}};
  const EncodedRecord encoded = RecordEncoder({"chatml", ""}, *tokenizer_).encode(record);
  ASSERT_EQ(encoded.weights.size(), encoded.ids.size());
  EXPECT_EQ(runs_of(encoded.weights), (std::vector<float>{1, 2, 5, 2, 1, 0}));
  const auto first = size_t(encoded.turns[0]);
  EXPECT_EQ(encoded.ids[first + 1], 'a');
  EXPECT_EQ(encoded.weights[first + 1], 5);
  EXPECT_EQ(encoded.weights[size_t(encoded.turns[1]) - 1], 2) << "of what ends the answer";
}

}  // namespace
}  // namespace wmtp
