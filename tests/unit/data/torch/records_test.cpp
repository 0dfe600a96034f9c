#include <map>
#include <set>

#include "base/time_use.hpp"
#include "data/tokens/corpus.hpp"
#include "data/torch/prepare.hpp"
#include "data/torch/record_prepare.hpp"
#include "data/torch/sources.hpp"
#include "support/data_fixture.hpp"
#include "support/experiment_fixture.hpp"
#include "support/tensors.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// Records with the byte tokenizer: an instruction of one letter, so that a prompt is two ids ("plain").
class RecordData : public DataTest {
 protected:
  static std::string line(const std::string& output, int problem, bool correct, int difficulty = 1) {
    return R"({"instruction": "q", "output": ")" + output + R"(", "task_id": "t)" + std::to_string(problem) +
           R"(", "is_correct": )" + (correct ? "true" : "false") + R"(, "metadata": {"difficulty": )" +
           std::to_string(difficulty) + "}}\n";
  }
  /// Two right and two wrong answers to each problem; the difficulty is the problem's number modulo 10.
  void write_problems(int problems, const std::string& name = "a.jsonl", int first = 0) const {
    std::string text;
    for (int p = first; p < first + problems; ++p)
      for (int i = 0; i < 4; ++i) text += line(std::string(3 + i, char('a' + p % 26)), p, i % 2 == 0, p % 10);
    write(name, text);
  }

  Experiment experiment() const {
    Experiment e = text_experiment();
    e.data.kind = DataKind::records;
    e.data.files = {at("a.jsonl")};
    e.data.prompt_template = "plain";
    e.train.batch_size = 4;
    e.train.sequence_length = 64;
    e.train.steps = 10;
    return e;
  }
  static void bin(Experiment& e, std::vector<std::string> bins, std::vector<double> weights) {
    e.data.difficulty = {true, std::move(bins), weights, weights};
  }

  Prepared open(const Experiment& e, std::vector<std::string>* said = nullptr) const {
    prepare_data(
        e, folder_ / "cache",
        [&](const std::string& text) {
          if (said) said->push_back(text);
        },
        /*weights=*/false);
    return open_prepared(e, folder_ / "cache", 1, /*weights=*/false);
  }
  std::string refused(const Experiment& e, const BatchRequest& request = {}, int64_t world = 1,
                      ExitStatus status = ExitStatus::data) const {
    return error_of(status, [&] { training_batches(e, open(e), request, world); });
  }
};

using Ids = std::vector<int64_t>;
using test::numbers_of;

BatchRequest pairs_wanted() {
  BatchRequest request;
  request.pairs = true;
  return request;
}

TEST_F(RecordData, ArePackedIntoSequencesWhoseRecordsAreSeparate) {
  write("a.jsonl", line("abc", 1, true) + line("d", 2, true) + line(std::string(12, 'e'), 3, true));
  Experiment e = experiment();
  e.train.batch_size = 2;
  e.train.sequence_length = 16;
  e.data.packing = true;
  e.data.order = DataOrder::sequential;
  const Prepared prepared = open(e);
  BatchRequest request;
  request.heads = 3;
  const auto source = training_batches(e, prepared, request, 1);
  EXPECT_EQ(source->count(), 2) << "15 tokens; 6 and 4 tokens";
  const auto micro = source->training(0, 0, 1);
  EXPECT_EQ(numbers_of(micro.batch.tokens[1].narrow(0, 0, 11)),
            (Ids{'q', '\n', 'a', 'b', 'c', 257, 'q', '\n', 'd', 257, 0}));
  EXPECT_EQ(numbers_of(micro.batch.kind[1].narrow(0, 0, 11)), (Ids{1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 0}));
  EXPECT_EQ(numbers_of(micro.documents.begins[1].narrow(0, 0, 12)), (Ids{0, 0, 0, 0, 0, 0, 6, 6, 6, 6, 10, 11}));
  EXPECT_EQ(numbers_of(micro.sources(1)[1].narrow(0, 0, 10)), (Ids{0, 1, 1, 1, 1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(numbers_of(micro.sources(3)[1].narrow(0, 0, 10)), (Ids{1, 1, 1, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(numbers_of(micro.batch.correct), (Ids{-1, -1})) << "of several records";
  EXPECT_EQ(micro.windows, (Ids{0, 1})) << "packs";
  EXPECT_EQ(micro.tokens, 15 + 6 + 4);
  EXPECT_EQ(micro.attended_keys, 15 * 15 + 6 * 6 + 4 * 4);
  for (int64_t k = 1; k <= 3; ++k) EXPECT_EQ(micro.counts[size_t(k - 1)], micro.sources(k).sum().item<int64_t>()) << k;
}

TEST_F(RecordData, BecomePromptAnswerAndPadding) {
  write("a.jsonl", line("abc", 1, true, 3) + line("d", 2, false) +
                       R"({"instruction": "q", "output": ""})"
                       "\n");
  Experiment e = experiment();
  e.train.batch_size = 3;
  e.data.order = DataOrder::sequential;
  const Prepared prepared = open(e);
  BatchRequest request;
  request.heads = 3;
  const auto micro = training_batches(e, prepared, request, 1)->training(0, 0, 1);
  ASSERT_EQ(micro.batch.tokens.size(1), 16) << "six ids, rounded up";
  EXPECT_EQ(numbers_of(micro.batch.tokens[0].narrow(0, 0, 7)), (Ids{'q', '\n', 'a', 'b', 'c', 257, 0}));
  EXPECT_EQ(numbers_of(micro.batch.kind[0].narrow(0, 0, 7)), (Ids{1, 1, 2, 2, 2, 2, 0}));
  EXPECT_EQ(numbers_of(micro.batch.kind[2].narrow(0, 0, 4)), (Ids{1, 1, 2, 0}));
  EXPECT_TRUE(at::equal(micro.targets, micro.batch.kind.eq(2)));
  EXPECT_EQ(numbers_of(micro.batch.correct), (Ids{1, 0, -1}));
  EXPECT_EQ(numbers_of(micro.batch.partner), (Ids{-1, -1, -1}));
  EXPECT_EQ(micro.windows, (Ids{0, 1, 2}));
  EXPECT_EQ(micro.answer_tokens, 4 + 2 + 1);
  for (int64_t k = 1; k <= 3; ++k)
    EXPECT_EQ(micro.counts[size_t(k - 1)], valid_sources(micro.targets, k).sum().item<int64_t>()) << k;
  request.prompts = true;
  const auto both = training_batches(e, prepared, request, 1)->training(0, 0, 1);
  EXPECT_TRUE(at::equal(both.targets, both.batch.kind.gt(0)));
  for (int64_t k = 1; k <= 3; ++k)
    EXPECT_EQ(both.counts[size_t(k - 1)], valid_sources(both.targets, k).sum().item<int64_t>()) << k;
}

TEST_F(RecordData, AreTheSameInAStepForAnyNumberOfRanks) {
  write_problems(40);
  Experiment e = experiment();
  const Prepared prepared = open(e);
  std::map<int64_t, Ids> steps;
  for (const int64_t world : {1, 2, 4}) {
    e.train.batch_size = 8 / world;
    const auto source = training_batches(e, prepared, {}, world);
    for (int64_t m = 0; m < 5; ++m) {
      Ids step;
      std::set<int64_t> lengths;
      for (int64_t rank = 0; rank < world; ++rank) {
        const auto micro = source->training(m * 8, rank, world);
        step.insert(step.end(), micro.windows.begin(), micro.windows.end());
        lengths.insert(micro.batch.tokens.size(1));
      }
      EXPECT_EQ(std::set<int64_t>(step.begin(), step.end()).size(), 8u) << "no record twice";
      EXPECT_EQ(lengths.size(), 1u);
      EXPECT_EQ(steps.emplace(m, step).first->second, step) << world << " ranks, micro-batch " << m;
    }
  }
}

TEST_F(RecordData, AreEachDrawnOnceInAnEpoch) {
  write_problems(10);
  Experiment e = experiment();
  const auto prepared = open(e);
  const auto source = training_batches(e, prepared, {}, 1);
  EXPECT_EQ(source->count(), 40);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::set<int64_t> seen;
    for (int64_t m = 0; m < 10; ++m)
      for (const int64_t record : source->training((epoch * 10 + m) * 4, 0, 1).windows) seen.insert(record);
    EXPECT_EQ(seen.size(), 40u);
  }
}

TEST_F(RecordData, AreSelectedByTheirLabel) {
  write_problems(10);
  Experiment e = experiment();
  e.data.select = AnswerSelection::correct;
  const auto source = training_batches(e, open(e), {}, 1);
  EXPECT_EQ(source->count(), 20);
}

TEST_F(RecordData, LongerThanASequenceAreExcludedAndLogged) {
  write("a.jsonl",
        line("abc", 1, true) + line(std::string(62, 'x'), 1, true) + line("c", 1, true) + line("d", 2, true));
  Experiment e = experiment();
  e.train.batch_size = 1;
  std::vector<std::string> said;
  EXPECT_EQ(training_batches(e, open(e, &said), {}, 1)->count(), 3);
  EXPECT_EQ(said[said.size() - 2],
            "3 records to train on, 0 for validation; excluded: 1 longer than train.sequence_length 64 "
            "(longest: 65 tokens), 0 of held-out problems");
  said.clear();
  open(e, &said);
  EXPECT_EQ(said.size(), 2u) << "logged and warned again, but built once";
}

TEST_F(RecordData, LongerThanASequenceAreTruncatedOnRequest) {
  write("a.jsonl", line("abc", 1, true) + line(std::string(100, 'x'), 1, true) + R"({"instruction": ")" +
                       std::string(64, 'q') + R"(", "output": "never reached"})" + "\n");
  Experiment e = experiment();
  e.data.too_long = TooLong::truncate;
  e.data.order = DataOrder::sequential;
  e.train.batch_size = 2;
  std::vector<std::string> said;
  const Prepared prepared = open(e, &said);
  const auto micro = training_batches(e, prepared, {}, 1)->training(0, 0, 1);
  ASSERT_EQ(micro.batch.tokens.size(1), 64);
  EXPECT_EQ(numbers_of(micro.batch.tokens[1].narrow(0, 60, 4)), (Ids{'x', 'x', 'x', 'x'})) << "without end of text";
  EXPECT_EQ(micro.answer_tokens, 4 + 62);
  EXPECT_EQ(said[said.size() - 2],
            "2 records to train on, 0 for validation; 1 truncated to 64 (longest: 103 tokens); excluded: 1 longer than "
            "train.sequence_length 64 (longest: 103 tokens), 0 of held-out problems");
  EXPECT_EQ(said.back(),
            "warning: 33% of the records are excluded because they are longer than "
            "train.sequence_length; raise it");
}

TEST_F(RecordData, WarnIfMoreThanATenthIsExcluded) {
  const auto excluded = [&](int too_long) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += line(std::string(i < too_long ? 100 : 1, 'x'), i, true);
    write("a.jsonl", text);
    std::vector<std::string> said;
    open(experiment(), &said);
    return said.back();
  };
  EXPECT_FALSE(has(excluded(2), "warning"));
  EXPECT_EQ(excluded(3),
            "warning: 15% of the records are excluded because they are longer than "
            "train.sequence_length; raise it, or set data.too_long = \"truncate\"");
}

TEST_F(RecordData, WarnOfEmptyAnswers) {
  const auto said_of = [&](const std::string& lines, const std::string& name) {
    write("a.jsonl", line("abc", 1, true) + lines);
    Experiment e = experiment();
    e.data.prompt_template = name;
    std::vector<std::string> said;
    open(e, &said);
    return said.back();
  };
  const std::string warning =
      "an empty answer, from which the model learns to end at once; remove them unless this is meant";
  EXPECT_FALSE(has(said_of("", "plain"), "warning"));
  EXPECT_EQ(said_of(line("", 2, true), "plain"), "warning: 1 record has " + warning);
  EXPECT_EQ(said_of(line("", 2, true) + line(" \\n", 3, true), "plain"), "warning: 2 records have " + warning);
}

TEST_F(RecordData, OfSeveralTurnsHaveTheirKindAtEachToken) {
  write("a.jsonl", R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},)"
                   R"( {"role": "user", "content": "r"}, {"role": "assistant", "content": "bc"}]})"
                   "\n"
                   R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "q"}]})"
                   "\n");
  Experiment e = experiment();
  e.data.prompt_template = "chatml";
  e.data.order = DataOrder::sequential;
  e.train.batch_size = 2;
  e.train.sequence_length = 256;
  const Prepared prepared = open(e);
  BatchRequest request;
  request.heads = 3;
  const auto micro = training_batches(e, prepared, request, 1)->training(0, 0, 1);
  const auto answers = [&](int64_t row) {
    std::string text;
    for (int64_t i = 0; i < micro.batch.tokens.size(1); ++i)
      if (micro.batch.kind[row][i].item<int64_t>() == answer_kind) {
        const auto id = micro.batch.tokens[row][i].item<int64_t>();
        text += id == byte_vocab_size - 1 ? '!' : char(id);
      }
    return text;
  };
  EXPECT_EQ(answers(0), "a<|im_end|>bc<|im_end|>!") << "! is the end of text";
  EXPECT_EQ(answers(1), "a<|im_end|>") << "nothing after the user's last message";
  for (int64_t k = 1; k <= 3; ++k)
    EXPECT_EQ(micro.counts[size_t(k - 1)], valid_sources(micro.targets, k).sum().item<int64_t>()) << k;
  EXPECT_EQ(micro.answer_tokens, micro.batch.kind.eq(answer_kind).sum().item<int64_t>());
}

TEST_F(RecordData, OfPreferencesArePairs) {
  std::string text;
  for (int i = 0; i < 4; ++i)
    text += R"({"prompt": "q", "chosen": "right)" + std::to_string(i) + R"(", "rejected": "wrong"})" + "\n";
  write("a.jsonl", text);
  Experiment e = experiment();
  e.data.prompt_template.clear();
  const Prepared prepared = open(e);
  const auto source = training_batches(e, prepared, pairs_wanted(), 1);
  EXPECT_EQ(source->count(), 8);
  const auto micro = source->training(0, 0, 1);
  EXPECT_EQ(numbers_of(micro.batch.correct), (Ids{1, 0, 1, 0}));
  EXPECT_EQ(numbers_of(micro.batch.tokens[0].narrow(0, 0, 2)), (Ids{'q', 'r'})) << "the prompt as it is";
}

TEST_F(RecordData, OfMessagesNeedATemplateForThem) {
  write("a.jsonl", R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})");
  Experiment e = experiment();
  EXPECT_TRUE(has(refused(e), "need data.template = \"chat\""));
  e.data.prompt_template.clear();
  EXPECT_TRUE(has(refused(e), "data.template = \"chatml\""));
}

TEST_F(RecordData, ComeInPairsOfOneProblem) {
  write_problems(40);
  const Experiment e = experiment();
  const Prepared prepared = open(e);
  const auto source = training_batches(e, prepared, pairs_wanted(), 2);
  EXPECT_EQ(source->count(), 2 * 40 * 4);
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t m = 0; m < 40; ++m) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      const auto micro = source->training(m * 8, rank, 2);
      EXPECT_EQ(numbers_of(micro.batch.correct), (Ids{1, 0, 1, 0}));
      EXPECT_EQ(numbers_of(micro.batch.partner), (Ids{1, 0, 3, 2}));
      EXPECT_EQ(micro.pairs, 2);
      for (size_t b = 0; b < 4; b += 2) {
        const auto& entries = prepared.records->entries();
        EXPECT_EQ(entries[size_t(micro.windows[b])].problem, entries[size_t(micro.windows[b + 1])].problem);
        seen.emplace(micro.windows[b], micro.windows[b + 1]);
      }
    }
  }
  EXPECT_EQ(seen.size(), 160u) << "one epoch";
}

TEST_F(RecordData, WithoutAnyPairAreRefusedWithTheirCounts) {
  write("a.jsonl", line("a", 1, true) + line("b", 2, false) + line("c", 3, false) +
                       R"({"instruction": "q", "output": "x"})"
                       "\n");
  const auto message = refused(experiment(), pairs_wanted());
  EXPECT_TRUE(has(message, "found 4 records of 3 problems, 1 right, 2 wrong, 1 without is_correct, 1 without task_id"))
      << message;
}

TEST_F(RecordData, RefusePairsWhereTheyAreImpossible) {
  write_problems(10);
  Experiment e = experiment();
  e.data.select = AnswerSelection::correct;
  EXPECT_TRUE(has(refused(e, pairs_wanted(), 1, ExitStatus::usage), "data.select"));
  e = experiment();
  e.train.batch_size = 3;
  EXPECT_TRUE(has(refused(e, pairs_wanted(), 1, ExitStatus::usage), "wanted an even number"));
  e = experiment();
  e.data.kind = DataKind::random;
  EXPECT_TRUE(has(refused(e, pairs_wanted(), 1, ExitStatus::usage), "kind \"random\" does not have"));
}

TEST_F(RecordData, AreDrawnByDifficulty) {
  write_problems(100);
  Experiment e = experiment();
  e.train.steps = 100;
  bin(e, {"0-4", "5-6", "7-8"}, {3, 1, 0});
  const auto prepared = open(e);
  const auto source = training_batches(e, prepared, {}, 1);
  EXPECT_EQ(source->bins(), (std::vector<std::string>{"0-4", "5-6", "7-8"}));
  EXPECT_EQ(source->count(), 4 * 70) << "9 is in no bin, 7 and 8 have weight 0";
  std::map<int64_t, int64_t> drawn;
  for (int64_t m = 0; m < 100; ++m) {
    const auto micro = source->training(m * 4, 0, 1);
    for (size_t b = 0; b < 4; ++b) {
      const int32_t difficulty = prepared.records->entries()[size_t(micro.windows[b])].difficulty;
      EXPECT_EQ(micro.bins[b], difficulty <= 4 ? 0 : 1);
      ++drawn[micro.bins[b]];
    }
  }
  EXPECT_EQ(drawn, (std::map<int64_t, int64_t>{{0, 300}, {1, 100}}));
}

TEST_F(RecordData, RefuseBinsThatMatchNothing) {
  write_problems(20);
  Experiment e = experiment();
  bin(e, {"0-4", "20-30"}, {1, 1});
  EXPECT_TRUE(has(refused(e),
                  "draws from bin \"20-30\", but no record to train on is in it; the records' difficulties "
                  "are 0 to 9"));
  bin(e, {"20-30"}, {1});
  EXPECT_TRUE(has(refused(e), "draws from 20-30; difficulties in the data: 0 to 9"));
}

TEST_F(RecordData, HoldOutOneProblemInTwenty) {
  write_problems(200);
  Experiment e = experiment();
  e.validation.given = true;
  bin(e, {"0-4", "5-9"}, {1, 0});
  const Prepared prepared = open(e);
  std::map<int, std::set<int64_t>> problems;
  for (const RecordEntry& entry : prepared.records->entries()) problems[entry.held_out].insert(entry.problem);
  EXPECT_GT(problems[1].size(), 3u);
  EXPECT_EQ(problems[0].size() + problems[1].size(), 200u) << "all answers to a problem on one side";
  const auto validation = validation_batches(e, prepared, {});
  EXPECT_EQ(validation->count(), int64_t(4 * problems[1].size())) << "bins of weight 0 too";
  Experiment stage = experiment();
  stage.data.hold_out_problems = true;
  const Prepared without = open(stage);
  std::set<int64_t> kept;
  for (const RecordEntry& entry : without.records->entries()) kept.insert(entry.problem);
  EXPECT_EQ(kept, problems[0]);
  EXPECT_EQ(validation_batches(stage, without, {}), nullptr);
}

TEST_F(RecordData, HoldOutTheProblemsOfFiles) {
  write_problems(30);
  write_problems(5, "b.jsonl", 28);
  Experiment e = experiment();
  e.validation.given = true;
  e.validation.files = {at("b.jsonl")};
  const Prepared prepared = open(e);
  EXPECT_EQ(training_batches(e, prepared, {}, 1)->count(), 28 * 4);
  EXPECT_EQ(validation_batches(e, prepared, {})->count(), 5 * 4);
  EXPECT_EQ(validation_batches(e, prepared, pairs_wanted())->count(), 5 * 4 * 2);
  Experiment stage = experiment();
  stage.data.hold_out = e.validation.files;
  EXPECT_EQ(training_batches(stage, open(stage), {}, 1)->count(), 28 * 4);
  EXPECT_NE(data_content_hash(stage, at("cache")), data_content_hash(experiment(), at("cache")));
}

TEST_F(RecordData, HoldOutAQuestionThatOnlyOneOfTheFilesNames) {
  const std::string named = R"({"instruction": "a", "output": "1", "task_id": "t1"})",
                    unnamed = with(named, R"(, "task_id": "t1")", ""),
                    other = with(with(named, "\"a\"", "\"b\""), "t1", "t2");
  for (const auto& [trained, held_out] : {std::pair(named, unnamed), std::pair(unnamed, named)}) {
    write("a.jsonl", trained + "\n" + other + "\n");
    write("b.jsonl", held_out + "\n");
    Experiment e = experiment();
    e.train.batch_size = 1;
    e.validation.given = true;
    e.validation.files = {at("b.jsonl")};
    EXPECT_EQ(training_batches(e, open(e), {}, 1)->count(), 1);
  }
}

TEST_F(RecordData, WarnOfATaskIdThatTwoQuestionsShare) {
  write("a.jsonl", line("1", 1, true) + with(line("2", 2, true), "\"q\"", "\"r\""));
  write("b.jsonl", line("3", 2, true));
  Experiment e = experiment();
  e.train.batch_size = 1;
  e.validation.given = true;
  e.validation.files = {at("b.jsonl")};
  testing::internal::CaptureStderr();
  EXPECT_EQ(training_batches(e, open(e), {}, 1)->count(), 1);
  EXPECT_TRUE(has(testing::internal::GetCapturedStderr(),
                  "left out of data.files: 1 record whose task_id is that of a held-out record, which asks"));
}

TEST_F(RecordData, PairNoAnswersToDifferentQuestionsThatShareATaskId) {
  const auto of_another = [&](const std::string& text) { return with(text, "\"q\"", "\"r\""); };
  write("a.jsonl",
        line("1", 1, true) + line("2", 1, false) + of_another(line("3", 1, true)) + of_another(line("4", 1, false)));
  Experiment e = experiment();
  const Prepared prepared = open(e);
  EXPECT_EQ(training_batches(e, prepared, pairs_wanted(), 1)->count(), 2 * 2) << "of four pairs by task_id";
  std::set<int64_t> problems;
  for (const RecordEntry& entry : prepared.records->entries()) problems.insert(entry.problem);
  EXPECT_EQ(problems.size(), 2u);
}

TEST_F(RecordData, GiveValidationRowsOfPadding) {
  write_problems(10);
  write_problems(1, "b.jsonl", 50);
  Experiment e = experiment();
  e.validation.given = true;
  e.validation.files = {at("b.jsonl")};
  const Prepared prepared = open(e);
  const auto micro = validation_batches(e, prepared, pairs_wanted())->fetch({0, 1, -1, -1}, 0, 1);
  EXPECT_EQ(micro.pairs, 1);
  EXPECT_EQ(numbers_of(micro.batch.partner), (Ids{1, 0, -1, -1}));
  EXPECT_EQ(numbers_of(micro.batch.correct), (Ids{1, 0, -1, -1}));
  EXPECT_EQ(micro.targets[2].sum().item<int64_t>(), 0);
  EXPECT_EQ(micro.windows[3], -1);
}

TEST_F(RecordData, TooFewForAStepAreRefused) {
  write_problems(2);
  Experiment e = experiment();
  const auto message = refused(e, {}, 3);
  EXPECT_TRUE(has(message, "8 sequences") && has(message, "needs 12")) << message;
}

TEST_F(RecordData, ReportEveryMistakeOfEveryFile) {
  write("a.jsonl", "{\n" + line("x", 1, true));
  write("b.jsonl", R"({"instruction": "q"})");
  Experiment e = experiment();
  e.data.files = {at("*.jsonl")};
  const auto message = refused(e);
  EXPECT_TRUE(has(message, "a.jsonl:1:") && has(message, "b.jsonl:1: output: missing")) << message;
  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) ADD_FAILURE() << entry << " is left behind";
}

TEST_F(RecordData, WithoutRecordsAreRefused) {
  write("a.jsonl", "\n\n");
  EXPECT_TRUE(has(refused(experiment()), "no records remain to train on"));
  Experiment e = experiment();
  write("a.jsonl", line("abc", 1, true));
  e.validation.given = true;
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { open(e); }), "validation.files"));
}

TEST_F(RecordData, AreGeneratedForArithmetic) {
  Experiment e = experiment();
  e.data.files.clear();
  e.data.arithmetic.given = true;
  e.data.arithmetic.problems = 50;
  e.data.arithmetic.max_operations = 2;
  e.train.sequence_length = 1024;
  const Prepared prepared = open(e);
  EXPECT_EQ(training_batches(e, prepared, pairs_wanted(), 1)->count(), 100);
  Experiment other = e;
  other.data.arithmetic.seed = 1;
  EXPECT_NE(data_content_hash(e, at("cache")), data_content_hash(other, at("cache")));
  EXPECT_NE(open(other).folder, prepared.folder);
}

TEST_F(RecordData, TrainATokenizerOnTheirTexts) {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += R"({"instruction": "How many of the )" + std::to_string(i * 37 % 101) +
            R"( ducks swim?", "output": "There are )" + std::to_string(i * i % 89) + R"( ducks that swim.\n#### )" +
            std::to_string(i) + "\", \"task_id\": " + std::to_string(i) + ", \"is_correct\": true}\n";
  write("a.jsonl", text);
  Experiment e = experiment();
  e.data.tokenizer = {true, TokenizerKind::bpe, {}, "", 340};
  e.model.vocab_size = 340;
  e.data.order = DataOrder::sequential;
  const Prepared prepared = open(e);
  const auto micro = training_batches(e, prepared, {}, 1)->training(0, 0, 1);
  std::vector<int32_t> ids;
  for (const int64_t id : numbers_of(micro.batch.tokens[1])) ids.push_back(int32_t(id));
  ids.resize(size_t(prepared.records->entries()[1].length));
  EXPECT_EQ(prepared.tokenizer->decode(ids), "How many of the 37 ducks swim?\nThere are 1 ducks that swim.\n#### 1");
  EXPECT_EQ(ids.back(), prepared.tokenizer->end_of_text());
  Experiment other = e;
  other.data.select = AnswerSelection::correct;
  EXPECT_EQ(read(open(other).folder / "tokenizer.model"), read(prepared.folder / "tokenizer.model"));
}

TEST_F(RecordData, OfAThousandProblemsTakeASecondOrTwo) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += line(std::string(280, char('a' + i % 26)), i / 2, i % 2 == 0);
  write("a.jsonl", text);
  Experiment e = experiment();
  e.train.sequence_length = 512;
  const double before = processor_seconds();
  open(e);
  EXPECT_LT(processor_seconds() - before, 2);
}

std::vector<float> row_of(const at::Tensor& rows, int64_t row, int64_t count) {
  const at::Tensor values = rows[row].narrow(0, 0, count).contiguous();
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + count};
}

TEST_F(RecordData, HaveWeightsInAFileOfTheirOwn) {
  write("a.jsonl", R"({"instruction": "q", "output": "abcdefghijklmn", "weight": 0.5})"
                   "\n"
                   R"({"instruction": "q", "output": "ab", "weights": [{"start": 1, "end": 2, "weight": 3}]})"
                   "\n"
                   R"({"instruction": "q", "output": "abcdefghijklmnopq", "weight": 2})"
                   "\n"
                   R"({"instruction": "q", "output": "c"})"
                   "\n");
  Experiment e = experiment();
  e.train.batch_size = 3;
  e.train.sequence_length = 18;
  e.data.too_long = TooLong::truncate;
  e.data.packing = true;
  const Prepared plain = open(e);
  prepare_data(
      e, folder_ / "cache", [](const std::string&) {}, /*weights=*/true);
  const Prepared prepared = open_prepared(e, folder_ / "cache", 1, /*weights=*/true);
  EXPECT_EQ(prepared.folder, plain.folder);
  EXPECT_EQ(prepared.identity, plain.identity);
  EXPECT_FALSE(fs::exists(plain.folder / Records::weights_name));
  BatchRequest request;
  request.signals = {Signal::data_weight};
  e.data.order = DataOrder::sequential;
  const auto micro = training_batches(e, prepared, request, 1)->training(0, 0, 1);
  const at::Tensor& weights = micro.signals.at("data.weight");
  EXPECT_EQ(row_of(weights, 0, 18), std::vector<float>(18, 2)) << "truncated";
  EXPECT_EQ(row_of(weights, 1, 17), std::vector<float>(17, 0.5F));
  EXPECT_EQ(row_of(weights, 2, 10), (std::vector<float>{1, 1, 1, 3, 1, 1, 1, 1, 1, 0})) << "two records and padding";
  EXPECT_TRUE(training_batches(e, plain, {}, 1)->training(0, 0, 1).signals.empty());
}

TEST_F(RecordData, WithoutWeightsAreRefusedToAPipelineThatReadsThem) {
  write_problems(3);
  const std::string message = error_of(ExitStatus::data, [&] {
    prepare_data(
        experiment(), folder_ / "cache", [](const std::string&) {}, /*weights=*/true);
  });
  EXPECT_TRUE(has(message, "reads data.weight, but no record has a \"weight\" or \"weights\"")) << message;
}

TEST_F(RecordData, WeightsOfMessagesAreRefusedWhereTheyAreNotReadAlsoAfterTheyWere) {
  write("a.jsonl",
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 0}]})"
        "\n");
  Experiment e = experiment();
  e.train.batch_size = 1;
  e.train.sequence_length = 96;
  e.data.prompt_template = "chatml";
  const auto prepare = [&](bool weights) {
    prepare_data(
        e, folder_ / "cache", [](const std::string&) {}, weights);
  };
  EXPECT_NO_THROW(prepare(true));
  const std::string message = error_of(ExitStatus::data, [&] { prepare(false); });
  EXPECT_TRUE(has(message, "a.jsonl:1: messages[1].weight: found the number 0, wanted 1 or none")) << message;
}

TEST_F(RecordData, HaveTheShareOfRightAnswersToTheirProblem) {
  write("a.jsonl", line("a", 1, true) + line("b", 1, false) + line("c", 1, false) + line("d", 2, true));
  Experiment e = experiment();
  e.data.order = DataOrder::sequential;
  const Prepared prepared = open(e);
  BatchRequest request;
  request.signals = {Signal::data_correct, Signal::data_pass_rate, Signal::data_bytes};
  request.token_bytes = at::arange(258, at::kFloat);
  const auto micro = training_batches(e, prepared, request, 1)->training(0, 0, 1);
  const float third = 1.0F / 3;
  EXPECT_EQ(row_of(micro.signals.at("data.pass_rate"), 0, 5), (std::vector<float>{third, third, third, third, 0}));
  EXPECT_EQ(row_of(micro.signals.at("data.pass_rate"), 3, 1), (std::vector<float>{1}));
  EXPECT_EQ(row_of(micro.signals.at("data.correct"), 0, 5), (std::vector<float>{1, 1, 1, 1, 0}));
  EXPECT_EQ(row_of(micro.signals.at("data.correct"), 1, 2), (std::vector<float>{0, 0}));
  EXPECT_TRUE(at::equal(micro.signals.at("data.bytes"), micro.batch.tokens.to(at::kFloat)));
  e.train.batch_size = 1;
  write("a.jsonl", R"({"instruction": "q", "output": "a", "is_correct": true})"
                   "\n");
  EXPECT_TRUE(has(refused(e, request), "the pipeline reads data.pass_rate, but 1 record lacks task_id"));
  write("a.jsonl", R"({"instruction": "q", "output": "a", "task_id": 1})"
                   "\n");
  EXPECT_TRUE(has(refused(e, request), "the pipeline reads data.correct, but 1 record lacks is_correct"));
}

}  // namespace
}  // namespace wmtp
