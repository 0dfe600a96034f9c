#include "data/torch/prepare.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/json.hpp"
#include "support/data_fixture.hpp"
#include "support/made_tokenizer.hpp"
#include "support/packed.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// Data without weights.
Prepared open_prepared(const Experiment& experiment, const fs::path& cache, int64_t world_size) {
  return open_prepared(experiment, cache, world_size, /*weights=*/false);
}

class Prepare : public DataTest {
 protected:
  fs::path cache() const { return folder_ / "cache"; }

  std::vector<std::string> prepare(const Experiment& experiment) const {
    std::vector<std::string> said;
    prepare_data(
        experiment, cache(), [&](const std::string& line) { said.push_back(line); }, /*weights=*/false);
    return said;
  }

  Prepared prepare_and_open(const Experiment& experiment, int64_t world_size = 1) const {
    prepare(experiment);
    return open_prepared(experiment, cache(), world_size);
  }

  static std::vector<int64_t> all_ids(const TokenWindows& windows, int64_t length) {
    std::vector<int64_t> ids(size_t(windows.count() * length));
    for (int64_t i = 0; i < windows.count(); ++i) windows.read(i, ids.data() + i * length);
    return ids;
  }

  std::map<std::string, fs::file_time_type> times() const {
    std::map<std::string, fs::file_time_type> result;
    for (const auto& entry : fs::recursive_directory_iterator(cache())) result[entry.path()] = entry.last_write_time();
    return result;
  }

  Experiment bpe_experiment() const {
    auto experiment = text_experiment();
    experiment.data.tokenizer.given = true;
    experiment.data.tokenizer.kind = TokenizerKind::bpe;
    experiment.data.tokenizer.vocab_size = experiment.model.vocab_size = 300;
    return experiment;
  }

  void write_words(int files) const {
    for (int i = 0; i < files; ++i) {
      std::string text;
      for (int word = 0; word < 200; ++word)
        text += "word" + std::string(1, char('a' + word * 7 % 26)) + " and other\n    lines ";
      write("text/" + std::to_string(i) + ".txt", text + std::to_string(i) + "\n");
    }
  }

  Experiment tokens_experiment(int num_ids) const {
    std::vector<uint16_t> ids((size_t(num_ids)));
    std::iota(ids.begin(), ids.end(), uint16_t{0});
    write("ids.bin", {reinterpret_cast<const char*>(ids.data()), ids.size() * 2});
    auto experiment = text_experiment();
    experiment.data.kind = DataKind::tokens;
    experiment.data.file = "ids.bin";
    experiment.model.vocab_size = 65536;
    return experiment;
  }
};

TEST_F(Prepare, JoinsDocumentsEachFollowedByEndOfText) {
  write("text/b.txt", "def");
  write("text/a.txt", "abc");
  write("text/c.txt", "ghijklmn\xff\n");
  auto experiment = text_experiment();
  EXPECT_TRUE(
      has(error_of(ExitStatus::data, [&] { prepare(experiment); }), "c.txt: found 1 byte in no character of UTF-8"));
  experiment.data.encoding = TextEncoding::bytes;
  const auto prepared = prepare_and_open(experiment);
  EXPECT_EQ(all_ids(*prepared.train, 8),
            (std::vector<int64_t>{'a', 'b', 'c', 257, 'd', 'e', 'f', 257, 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n'}));
  EXPECT_EQ(prepared.validation, nullptr);
  EXPECT_EQ(prepared.tokenizer->vocab_size(), 258);
}

TEST_F(Prepare, ReadsFilesOfAnyKindAsTheirBytes) {
  const std::string packed = gzip("abc"), lines = "\xef\xbb\xbf{\"text\": \"a\"}\n";
  write("text/a.txt.gz", packed);
  write("text/b.jsonl", lines);
  auto experiment = text_experiment();
  experiment.data.encoding = TextEncoding::bytes;
  std::vector<int64_t> wanted;
  for (const std::string& bytes : {packed, lines}) {
    for (const char byte : bytes) wanted.push_back(uint8_t(byte));
    wanted.push_back(257);
  }
  wanted.resize(wanted.size() / 8 * 8);
  EXPECT_EQ(all_ids(*prepare_and_open(experiment).train, 8), wanted);
}

TEST_F(Prepare, SeparatesValidationText) {
  write("text/a.txt", "aaaaaaaaaaaaaaa");
  write("text/b.txt", "bbbbbbbbbbbbbbb");
  auto experiment = text_experiment();
  experiment.validation.files = {"text/b.txt"};
  const auto prepared = prepare_and_open(experiment);
  for (int64_t id : all_ids(*prepared.train, 8)) EXPECT_NE(id, 'b');
  EXPECT_EQ(prepared.validation->count(), 2);
  EXPECT_EQ(all_ids(*prepared.validation, 8)[0], 'b');
}

TEST_F(Prepare, HoldsOutTheEndOfEachFileAndLogsTheTokensOfBothParts) {
  write("text/a.txt", std::string(20, 'a') + "\n" + std::string(9, 'b') + "\n");
  auto experiment = text_experiment();
  const auto whole = prepare_and_open(experiment).folder;
  experiment.validation.given = true;
  experiment.validation.share = 0.3;
  const auto said = prepare(experiment);
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said[0], "encoding 1 file for train (21 B)");
  EXPECT_EQ(said[2], "22 tokens to train on, 11 for validation (the last 30% of each file)");
  EXPECT_EQ(prepare(experiment), std::vector<std::string>{said[2]}) << "logged each time";
  const auto prepared = open_prepared(experiment, cache(), 1);
  EXPECT_NE(prepared.folder, whole);
  for (int64_t id : all_ids(*prepared.train, 8)) EXPECT_NE(id, 'b');
  EXPECT_EQ(all_ids(*prepared.validation, 8), std::vector<int64_t>(8, 'b'));

  experiment.validation = {};
  experiment.data.hold_out_share = 0.3;
  EXPECT_EQ(prepare(experiment).back(), "22 tokens to train on, the last 30% of each file is held out");
  EXPECT_EQ(open_prepared(experiment, cache(), 1).validation, nullptr);
}

TEST_F(Prepare, EndsEachDocumentBetweenSeparatorsWithEndOfText) {
  write("text/a.txt", "abc<|end|>de<|end|>\nf");
  auto experiment = text_experiment();
  experiment.data.separator = "<|end|>";
  EXPECT_EQ(all_ids(*prepare_and_open(experiment).train, 8),
            (std::vector<int64_t>{'a', 'b', 'c', 257, 'd', 'e', 257, '\n'}));
}

TEST_F(Prepare, WarnsThatPackingSeparatesAtEveryEndOfText) {
  auto experiment = text_experiment();
  experiment.data.tokenizer.given = true;
  experiment.data.tokenizer.kind = TokenizerKind::file;
  experiment.data.tokenizer.file = write("tokenizer.json", byte_level_json().dump());
  write("tokenizer_config.json", R"({"eos_token": "<end>"})");
  experiment.model.vocab_size = 261;
  write("text/a.txt", "cdefghijk<end>");
  experiment.data.packing = true;
  const auto warnings = [&] {
    auto said = prepare(experiment);
    std::erase_if(said, [](const std::string& line) { return !line.starts_with("warning: "); });
    return said;
  };
  EXPECT_THAT(warnings(), testing::IsEmpty());
  write("text/a.txt", "cdef<end>ghijk<end>l");
  const std::vector<std::string> said = warnings();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(has(said[0], "data.packing also separates inside of documents, after the 2 places")) << said[0];
  EXPECT_EQ(warnings(), said) << "logged each time";
  experiment.data.packing = false;
  EXPECT_THAT(warnings(), testing::IsEmpty());
}

TEST_F(Prepare, RefusesASeparatorThatNoFileHas) {
  auto experiment = text_experiment();
  experiment.data.separator = "\n***\n";
  write("text/a.txt", "abcd\r\n***\r\nefgh");
  const auto message = [&] { return error_of(ExitStatus::data, [&] { prepare(experiment); }); };
  EXPECT_EQ(message(), at("experiment.toml") +
                           ": data.separator = \"\\n***\\n\" is not found in any file of the data (" +
                           at("text/a.txt") + "); " + at("text/a.txt") +
                           " has it with CRLF line ends: separator = \"\\r\\n***\\r\\n\"");
  write("text/a.txt", "abcdefghijklmn");
  write("text/b.txt", "abcdefghijklmn");
  EXPECT_TRUE(has(message(), "(2 files); correct it, or remove it: each file is then one document")) << message();
  experiment.data.hold_out_share = 0.1;
  const auto has_line = [&](const std::string& line) {
    const auto lines = prepare(experiment);
    return std::ranges::count(lines, line) == 1;
  };
  EXPECT_TRUE(has_line("2 documents of 2 files: none of them with data.separator = \"\\n***\\n\"")) << "may be a stage";
  experiment.data.hold_out_share = 0;
  write("text/b.txt", "abcdefgh\n***\nijklmn");
  experiment.validation.given = true;
  experiment.validation.files = {at("text/b.txt")};
  EXPECT_TRUE(has_line("3 documents of 2 files: 1 of them with data.separator = \"\\n***\\n\""));
  write("text/a.txt", "abcdefghij\r\n***\r\nklmn");
  EXPECT_TRUE(has_line("warning: 3 documents of 2 files: 1 of them with data.separator = \"\\n***\\n\"; " +
                       at("text/a.txt") + " has it with CRLF line ends: separator = \"\\r\\n***\\r\\n\""));
}

TEST_F(Prepare, ReadsPackedTextAndJsonLinesAsTheirTexts) {
  write("text/a.txt", zstd("abc"));
  write("text/b.jsonl", gzip("{\"text\": \"de\"}\n{\"text\": \"f\", \"id\": 1}\n{\"text\": \"ghijklmn\"}\n"));
  const auto prepared = prepare_and_open(text_experiment());
  EXPECT_EQ(all_ids(*prepared.train, 8),
            (std::vector<int64_t>{'a', 'b', 'c', 257, 'd', 'e', 257, 'f', 257, 'g', 'h', 'i', 'j', 'k', 'l', 'm'}));
  write("text/a.txt", zstd("abC"));
  EXPECT_NE(prepare_and_open(text_experiment()).folder, prepared.folder);
}

TEST_F(Prepare, TrainsTheSameTokenizerOnPackedText) {
  write_words(3);
  const auto plain = prepare_and_open(bpe_experiment());
  for (int i = 0; i < 3; ++i) {
    const std::string file = "text/" + std::to_string(i) + ".txt";
    write(file, gzip(read(at(file))));
  }
  const auto packed = prepare_and_open(bpe_experiment());
  EXPECT_NE(packed.folder, plain.folder);
  for (const char* name : {"tokenizer.model", "train.bin"})
    EXPECT_EQ(read(packed.folder / name), read(plain.folder / name));
}

TEST_F(Prepare, TrainsTheTokenizerWithoutHeldOutText) {
  write_words(3);
  auto experiment = bpe_experiment();
  experiment.validation.given = true;
  experiment.validation.share = 0.1;
  write("text/tail.txt", read(at("text/0.txt")) + std::string(20, '\n') + "xylophone xylophone xylophone");
  const auto with_tail = prepare_and_open(experiment);
  write("text/tail.txt", read(at("text/0.txt")) + std::string(20, '\n') + "quicksand quicksand quicksand");
  const auto other_tail = prepare_and_open(experiment);
  EXPECT_NE(with_tail.folder, other_tail.folder);
  EXPECT_EQ(read(with_tail.folder / "tokenizer.model"), read(other_tail.folder / "tokenizer.model"));
}

TEST_F(Prepare, ExplainsWhyAShareHoldsNothingOut) {
  write("text/a.txt", std::string(100, 'a'));
  auto experiment = text_experiment();
  experiment.validation.given = true;
  experiment.validation.share = 0.1;
  const auto text = error_of(ExitStatus::data, [&] { prepare_and_open(experiment); });
  EXPECT_TRUE(has(text, "nothing is held out: no file has several documents or a newline before its last 10%")) << text;
  write("text/a.txt", std::string(100, 'a') + "\nbbb\n");
  experiment.validation.share = 0.03;
  const auto few = error_of(ExitStatus::data, [&] { prepare_and_open(experiment); });
  EXPECT_TRUE(has(few, "validation text has 5 tokens") && has(few, "raise validation.share")) << few;
}

TEST_F(Prepare, EncodesWithTheTokenizerItTrained) {
  write_words(3);
  const auto prepared = prepare_and_open(bpe_experiment());
  std::vector<int32_t> ids;
  for (int64_t id : all_ids(*prepared.train, 8)) ids.push_back(int32_t(id));
  std::string text;
  for (int i = 0; i < 3; ++i) text += read(at("text/" + std::to_string(i) + ".txt"));
  const auto decoded = prepared.tokenizer->decode(ids);
  EXPECT_GT(decoded.size() + 64, text.size());
  EXPECT_EQ(decoded, text.substr(0, decoded.size()));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), prepared.tokenizer->end_of_text()), 2);
}

TEST_F(Prepare, EncodesLargeDocumentsAsIfInOnePiece) {
  std::string text;
  while (text.size() < (3 << 20)) text += "some words, and\n        an indented line\n\n";
  text += std::string(1 << 21, 'x') + "\xc3\xa9" + std::string(1 << 20, 'y');
  write("text/large.txt", text);
  auto experiment = bpe_experiment();
  experiment.train.sequence_length = 1;
  const auto prepared = prepare_and_open(experiment);
  std::vector<int32_t> ids;
  for (int64_t id : all_ids(*prepared.train, 1)) ids.push_back(int32_t(id));
  EXPECT_TRUE(prepared.tokenizer->decode(ids) == text);
}

TEST_F(Prepare, SkipsFilesThatAreNotUtf8WithAWarning) {
  write_words(3);
  write("text/bad.txt", "four\xff" + std::string(1000, 'x'));
  const auto said = prepare(bpe_experiment());
  EXPECT_EQ(std::count_if(said.begin(), said.end(),
                          [](const std::string& line) {
                            return has(line, "warning") && has(line, "bad.txt") && has(line, "byte 4");
                          }),
            1);
  const auto prepared = open_prepared(bpe_experiment(), cache(), 1);
  EXPECT_TRUE(has(read(prepared.folder / "prepared.json"), "\"skipped\": 1"));
}

TEST_F(Prepare, LogsEachLongPart) {
  write_words(3);
  const auto said = prepare(bpe_experiment());
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0], "training a tokenizer of 300 pieces on 3 files");
  EXPECT_TRUE(has(said[1], "encoding 3 files for train")) << said[1];
}

TEST_F(Prepare, DoesNoWorkTwice) {
  write_words(3);
  prepare(bpe_experiment());
  const auto before = times();
  EXPECT_TRUE(prepare(bpe_experiment()).empty());
  EXPECT_EQ(times(), before);
}

TEST_F(Prepare, PreparesAgainWhenATextChanges) {
  write_words(3);
  const auto before = prepare_and_open(bpe_experiment()).folder;
  write("text/1.txt", read(at("text/1.txt")) + "more");
  EXPECT_NE(prepare_and_open(bpe_experiment()).folder, before);
}

TEST_F(Prepare, SharesATokenizerBetweenExperiments) {
  write_words(4);
  auto first = bpe_experiment();
  first.data.tokenizer.files = {"text/0.txt", "text/1.txt"};
  auto second = first;
  second.data.exclude = {"text/3.txt"};
  const auto one = prepare_and_open(first).folder;
  const auto said = prepare(second);
  ASSERT_EQ(said.size(), 1u) << said[0];
  const auto two = open_prepared(second, cache(), 1).folder;
  EXPECT_NE(one, two);
  EXPECT_EQ(read(one / "tokenizer.model"), read(two / "tokenizer.model"));
}

TEST_F(Prepare, RebuildsWhatIsDamaged) {
  write_words(3);
  const auto folder = prepare_and_open(bpe_experiment()).folder;
  const auto train = read(folder / "train.bin");
  fs::resize_file(folder / "train.bin", 10);
  const auto text = error_of(ExitStatus::data, [&] { open_prepared(bpe_experiment(), cache(), 1); });
  EXPECT_TRUE(has(text, "damaged")) << text;
  EXPECT_FALSE(prepare(bpe_experiment()).empty());
  EXPECT_EQ(read(folder / "train.bin"), train);
}

TEST_F(Prepare, RebuildsWhatHasFewerIdsThanWereWritten) {
  write_words(3);
  const auto folder = prepare_and_open(bpe_experiment()).folder;
  const auto train = read(folder / "train.bin");
  auto prepared = Json::parse(read(folder / "prepared.json"));
  fs::resize_file(folder / "train.bin", 10);
  prepared["files"]["train.bin"] = 10;  // as if it had been published while another process was writing it
  write("cache/" + folder.filename().string() + "/prepared.json", prepared.dump());
  EXPECT_FALSE(prepare(bpe_experiment()).empty());
  EXPECT_EQ(read(folder / "train.bin"), train);
}

TEST_F(Prepare, IgnoresThePartialFolderOfACrash) {
  write_words(3);
  const auto folder = prepare_and_open(bpe_experiment()).folder;
  const fs::path half = folder.string() + ".tmp-1";
  fs::rename(folder, half);
  fs::resize_file(half / "train.bin", 10);
  error_of(ExitStatus::data, [&] { open_prepared(bpe_experiment(), cache(), 1); });
  EXPECT_GT(prepare_and_open(bpe_experiment()).train->count(), 0);
  EXPECT_EQ(fs::file_size(half / "train.bin"), 10u);
}

TEST_F(Prepare, MayRunInTwoProcessesAtOnce) {
  write_words(30);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      int result = 1;
      try {
        result = prepare_and_open(bpe_experiment()).train->count() > 0 ? 0 : 2;
      } catch (...) {
      }
      _exit(result);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(cache())) names.push_back(entry.path().filename());
  EXPECT_EQ(names.size(), 2u) << "a tokenizer and a folder";
  for (const auto& name : names) EXPECT_FALSE(has(name, ".tmp-")) << name;
}

TEST_F(Prepare, LeavesNothingBehindWhenItFails) {
  write_words(1);
  auto experiment = bpe_experiment();
  experiment.data.tokenizer.vocab_size = 100000;
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { prepare(experiment); }), "no more than"));
  EXPECT_TRUE(fs::is_empty(cache()));
}

TEST_F(Prepare, ReportsACacheThatCannotBeWritten) {
  write_words(1);
  write("cache", "a file where the folder should be");
  EXPECT_TRUE(has(error_of(ExitStatus::storage, [&] { prepare(text_experiment()); }), "cannot create"));
}

TEST_F(Prepare, RefusesToOpenWhatIsNotPrepared) {
  write_words(1);
  const auto text = error_of(ExitStatus::data, [&] { open_prepared(text_experiment(), cache(), 1); });
  EXPECT_TRUE(has(text, "not prepared")) << text;
}

TEST_F(Prepare, RefusesAnEmptyCorpus) {
  write("text/a.txt", "");
  write("text/b.txt", "");
  const auto text = error_of(ExitStatus::data, [&] { prepare_and_open(text_experiment()); });
  EXPECT_TRUE(has(text, "2 tokens") && has(text, "window of 8") && has(text, "data.files")) << text;
}

TEST_F(Prepare, RefusesValidationTextShorterThanAWindow) {
  write("text/a.txt", "long enough for a window");
  write("text/b.txt", "short");
  auto experiment = text_experiment();
  experiment.validation.files = {"text/b.txt"};
  const auto text = error_of(ExitStatus::data, [&] { prepare_and_open(experiment); });
  EXPECT_TRUE(has(text, "validation text has 6 tokens")) << text;
}

TEST_F(Prepare, RefusesMoreRanksThanSequences) {
  write("text/a.txt", std::string(8 * 12 - 1, 'a'));
  auto experiment = text_experiment();
  experiment.train.batch_size = 2;
  experiment.train.gradient_accumulation = 3;
  experiment.train.steps = 1000;
  EXPECT_EQ(prepare_and_open(experiment, 2).train->count(), 12);
  const auto text = error_of(ExitStatus::data, [&] { open_prepared(experiment, cache(), 3); });
  EXPECT_TRUE(has(text, "12 sequences") && has(text, "needs 18") && has(text, "3 ranks")) << text;
}

TEST_F(Prepare, ReadsTokenFilesUnchanged) {
  const auto experiment = tokens_experiment(20);
  EXPECT_TRUE(prepare(experiment).empty());
  EXPECT_FALSE(fs::exists(cache()));
  const auto prepared = open_prepared(experiment, cache(), 2);
  std::vector<int64_t> wanted(16);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(all_ids(*prepared.train, 8), wanted);
  EXPECT_EQ(prepared.validation, nullptr);
  EXPECT_EQ(prepared.tokenizer, nullptr);
}

TEST_F(Prepare, ReadsTheWindowsOfEachTokenFileAndKeepsThoseForValidationApart) {
  auto experiment = tokens_experiment(20);
  fs::copy_file(at("ids.bin"), at("val.bin"));
  write("more.bin", std::string(2 * 9, '\1'));
  experiment.data.file = "";
  experiment.data.files = {"*.bin"};
  experiment.validation = {.files = {"val.bin"}, .given = true};
  prepare(experiment);
  const auto prepared = open_prepared(experiment, cache(), 1);
  std::vector<int64_t> validation(16);
  std::iota(validation.begin(), validation.end(), 0);
  auto train = validation;  // of ids.bin, then of more.bin: no window crosses their border
  train.insert(train.end(), 8, 0x0101);
  EXPECT_EQ(all_ids(*prepared.train, 8), train);
  ASSERT_NE(prepared.validation, nullptr);
  EXPECT_EQ(all_ids(*prepared.validation, 8), validation);
  write("more.bin", std::string(2 * 7, '\1'));
  const auto text = error_of(ExitStatus::data, [&] { open_prepared(experiment, cache(), 1); });
  EXPECT_TRUE(has(text, "more.bin has 7 ids, fewer than one window of 8")) << text;
}

TEST_F(Prepare, HoldsOutTheLastIdsOfEachTokenFile) {
  auto experiment = tokens_experiment(40);
  experiment.validation.given = true;
  experiment.validation.share = 0.25;
  const auto prepared = open_prepared(experiment, cache(), 1);
  EXPECT_EQ(prepared.train->count(), 3);
  std::vector<int64_t> wanted(8);
  std::iota(wanted.begin(), wanted.end(), 30);
  ASSERT_NE(prepared.validation, nullptr);
  EXPECT_EQ(all_ids(*prepared.validation, 8), wanted);
  auto stage = tokens_experiment(40);
  stage.data.hold_out_share = 0.25;
  EXPECT_EQ(open_prepared(stage, cache(), 1).train->count(), 3);
}

TEST_F(Prepare, RefusesTokenFilesOfSeveralTypesAndAPatternAsOneFile) {
  auto experiment = tokens_experiment(20);
  const std::string numpy = "{'descr': '<u4', 'fortran_order': False, 'shape': (8,), }\n";
  write("wide.npy", std::string("\x93NUMPY\1\0", 8) + char(numpy.size()) + '\0' + numpy + std::string(32, '\0'));
  experiment.data.file = "";
  experiment.data.files = {"ids.bin", "wide.npy"};
  const auto text = error_of(ExitStatus::data, [&] { prepare(experiment); });
  EXPECT_TRUE(has(text, "wide.npy has ids of uint32, but ") && has(text, "ids.bin has ids of uint16")) << text;
  experiment.data.file = "*.bin";
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { prepare(experiment); }), "name patterns of files in data.files"));
}

TEST_F(Prepare, RequiresEnoughWindowsOfTokensUnlessEpochsAreSet) {
  auto experiment = tokens_experiment(8 * 12);
  experiment.train.batch_size = 2;
  experiment.train.steps = 3;
  EXPECT_EQ(open_prepared(experiment, cache(), 2).train->count(), 12);
  experiment.train.steps = 4;
  const auto text = error_of(ExitStatus::data, [&] { open_prepared(experiment, cache(), 2); });
  EXPECT_TRUE(has(text, "12 windows") && has(text, "need 16") && has(text, "train.epochs") && has(text, "steps to 3"))
      << text;
  experiment.train.epochs = 2;
  EXPECT_EQ(open_prepared(experiment, cache(), 2).train->count(), 12);
}

TEST_F(Prepare, ATokenFileTooSmallForOneStepIsNotToBeReadInFewerSteps) {
  auto experiment = tokens_experiment(8 * 12);
  experiment.train.batch_size = 8;
  experiment.train.steps = 4;
  for (const double epochs : {0.0, 2.0}) {
    experiment.train.epochs = epochs;
    const auto text = error_of(ExitStatus::data, [&] { open_prepared(experiment, cache(), 2); });
    EXPECT_TRUE(has(text, "has 12 windows of 8 ids, but one step needs 16 (2 ranks x batch_size 8 x ") &&
                has(text, "use fewer ranks, a smaller batch, or more windows: more ids, or a shorter") &&
                !has(text, "train.steps"))
        << text;
  }
}

TEST_F(Prepare, DrawsRandomIdsWithoutAnyFile) {
  auto experiment = text_experiment();
  experiment.data.kind = DataKind::random;
  experiment.model.vocab_size = 50;
  const auto prepared = prepare_and_open(experiment, 4);
  std::vector<int64_t> ids(8);
  prepared.train->read(123456789, ids.data());
  for (int64_t id : ids) EXPECT_TRUE(id >= 0 && id < 50);
}

}  // namespace
}  // namespace wmtp
