#include "data/tokens/corpus.hpp"

#include <algorithm>
#include <set>

#include "io/file_digests.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

class Corpus : public DataTest {
 protected:
  /// Names relative to the test's folder, in the same order.
  std::vector<std::string> names(const std::vector<fs::path>& files) const {
    std::vector<std::string> result;
    for (const auto& file : files) result.push_back(file.lexically_relative(folder_).string());
    return result;
  }
  std::string hash_of(const Experiment& experiment) const { return data_content_hash(experiment, folder_ / "cache"); }
  void make_files(int count, const std::string& prefix = "text/") {
    for (int i = 0; i < count; ++i) write(prefix + std::to_string(i) + ".txt", "text " + std::to_string(i));
  }
};

using Names = std::vector<std::string>;

TEST_F(Corpus, HoldsOutTheNamedValidationFiles) {
  make_files(5);
  auto experiment = text_experiment();
  experiment.validation.given = true;
  experiment.validation.files = {"text/3.txt"};
  const auto split = split_text(experiment);
  EXPECT_EQ(names(split.validation), (Names{"text/3.txt"}));
  EXPECT_EQ(names(split.train), (Names{"text/0.txt", "text/1.txt", "text/2.txt", "text/4.txt"}));
}

TEST_F(Corpus, HoldsOutFilesThatAreNamedThroughALink) {
  make_files(3);
  write("text/val/v.txt", "held out");
  fs::create_directory_symlink("text", folder_ / "linked");
  fs::create_symlink("text/val/v.txt", folder_ / "v.txt");
  auto experiment = text_experiment();
  experiment.validation.given = true;
  for (const auto* named : {"linked/val/*.txt", "v.txt"}) {
    experiment.validation.files = {named};
    EXPECT_EQ(names(split_text(experiment).train), (Names{"text/0.txt", "text/1.txt", "text/2.txt"})) << named;
  }
}

TEST_F(Corpus, HoldsOutOneFileInTwentyWhenNoneIsNamed) {
  make_files(100);
  auto experiment = text_experiment();
  EXPECT_TRUE(split_text(experiment).validation.empty());
  experiment.validation.given = true;
  const auto split = split_text(experiment);
  EXPECT_EQ(split.validation.size(), 5u);
  EXPECT_EQ(split.train.size(), 95u);
  std::vector<fs::path> both;
  std::set_intersection(split.train.begin(), split.train.end(), split.validation.begin(), split.validation.end(),
                        std::back_inserter(both));
  EXPECT_TRUE(both.empty());
}

TEST_F(Corpus, SplitsIndependentlyOfTheFoldersLocation) {
  make_files(60, "text/");
  make_files(60, "elsewhere/deeper/");
  auto experiment = text_experiment();
  experiment.validation.given = true;
  auto moved = experiment;
  moved.data.files = {at("elsewhere/deeper/**")};
  const auto file_names = [](const TextSplit& split) {
    std::vector<std::string> result;
    for (const auto& file : split.validation) result.push_back(file.filename());
    return result;
  };
  EXPECT_EQ(file_names(split_text(experiment)), file_names(split_text(moved)));
  EXPECT_EQ(hash_of(experiment), hash_of(moved));
}

TEST_F(Corpus, WarnsOfItsOwnPatternsThatExcludeNothing) {
  for (const char* name : {"v/train.txt", "v/valid.txt", "v/other.txt", "w/a.txt"}) write(name, "x");
  fs::create_symlink("gone", folder_ / "v/link.txt");
  fs::create_symlink("v/other.txt", folder_ / "named.txt");
  auto experiment = text_experiment();
  experiment.data.files = {"v/*.txt"};
  experiment.data.exclude = {"v/vald.txt", "w/*", "v/link.txt", "named.txt", at("absent/valid.txt")};
  const std::string file = at("experiment.toml");
  const std::string typo = "data.exclude: \"v/vald.txt\" excludes no file of the data; did you mean \"v/valid.txt\"?";
  const std::string other = "data.exclude: \"w/*\" excludes no file of the data; check the path";
  auto warnings = data_warnings(experiment);
  ASSERT_EQ(warnings.size(), 2u) << "a stage inherits absolute patterns";
  EXPECT_EQ(warnings[0], file + ": " + typo);
  EXPECT_TRUE(has(warnings[1], file + ": " + other)) << warnings[1];
  experiment.source = "[data]\nexclude = [\"" + at("absent/valid.txt") + "\"]\n";
  experiment.origins["data.exclude"] = "base.toml:7";
  warnings = data_warnings(experiment);
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_EQ(warnings[0], "base.toml:7: " + typo);
  experiment.data.kind = DataKind::records;
  EXPECT_EQ(data_warnings(experiment), warnings);
  experiment.data.exclude = {"v/valid.txt", "v/*k.txt", "**/other.txt"};
  EXPECT_EQ(data_warnings(experiment), Names());
}

TEST_F(Corpus, RefusesASplitWithNothingToTrainOn) {
  make_files(1);
  auto experiment = text_experiment();
  experiment.data.exclude = {"text/*"};
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { split_text(experiment); }), "no file is left"));
  experiment.data.exclude = {};
  experiment.validation.given = true;
  const auto text = error_of(ExitStatus::data, [&] { split_text(experiment); });
  EXPECT_TRUE(has(text, "validation takes 1") && has(text, "validation.share")) << text;
  experiment.validation.share = 0.1;
  EXPECT_EQ(split_text(experiment).train, split_text(experiment).validation) << "parts of the same file";
}

TEST_F(Corpus, TrainsTheTokenizerOnTokenizerFilesOrOnTheTrainingPart) {
  make_files(4);
  write("other.txt", "x");
  auto experiment = text_experiment();
  experiment.data.exclude = {"text/0.txt"};
  EXPECT_EQ(names(tokenizer_files(experiment, split_text(experiment))),
            (Names{"text/1.txt", "text/2.txt", "text/3.txt"}));
  experiment.data.tokenizer.files = {"other.txt", "text/0.txt"};
  EXPECT_EQ(names(tokenizer_files(experiment, split_text(experiment))), (Names{"other.txt", "text/0.txt"}));
}

TEST_F(Corpus, HashesContentNamesSplitAndTokenizerFiles) {
  make_files(4);
  write("other.txt", "x");
  auto experiment = text_experiment();
  const auto before = hash_of(experiment);
  EXPECT_EQ(hash_of(experiment), before);

  write("text/2.txt", "text 3");
  const auto changed = hash_of(experiment);
  EXPECT_NE(changed, before);
  write("text/2.txt", "text 2");
  EXPECT_EQ(hash_of(experiment), before);

  fs::rename(at("text/2.txt"), at("text/9.txt"));
  EXPECT_NE(hash_of(experiment), before);
  fs::rename(at("text/9.txt"), at("text/2.txt"));

  auto split = experiment;
  split.validation.files = {"text/1.txt"};
  EXPECT_NE(hash_of(split), before);

  auto bpe = experiment;
  bpe.data.tokenizer.kind = TokenizerKind::bpe;
  bpe.data.tokenizer.files = {"other.txt"};
  const auto tokenized = hash_of(bpe);
  write("other.txt", "y");
  EXPECT_NE(hash_of(bpe), tokenized);
  EXPECT_EQ(hash_of(experiment), before);
}

TEST_F(Corpus, RefusesAsTextAFileWhoseDigestIsRememberedAsThatOfTokens) {
  const auto file = write("a.npy", "\x93NUMPY and more");
  FileDigests(folder_ / "cache/hashes.txt", std::chrono::seconds(0)).read(file);
  ASSERT_NE(FileDigests(folder_ / "cache/hashes.txt").known(file), std::nullopt);
  auto experiment = text_experiment();
  experiment.data.files = {file.string()};
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { hash_of(experiment); }), "found a numpy file"));
}

TEST_F(Corpus, HashesNamesAndBytesOfAllTokenFilesTheirSplitAndTheirTokenizer) {
  auto tokens = text_experiment();
  tokens.data.kind = DataKind::tokens;
  for (const std::string name : {"a.bin", "b.bin", "val.bin"}) write(name, "12345" + name);
  tokens.data.files = {at("*.bin")};
  tokens.validation = {.files = {at("val.bin")}, .given = true};
  std::set<std::string> hashes{hash_of(tokens)};
  const auto expect_new = [&](const Experiment& one) { EXPECT_TRUE(hashes.insert(hash_of(one)).second); };
  write("b.bin", "12346b.bin");
  expect_new(tokens);
  write("val.bin", "12346val.bin");
  expect_new(tokens);
  fs::rename(at("b.bin"), at("c.bin"));
  expect_new(tokens);
  write("tokenizer.json", "{}");
  tokens.data.tokenizer.given = true;
  tokens.data.tokenizer.kind = TokenizerKind::file;
  tokens.data.tokenizer.file = at("tokenizer.json");
  expect_new(tokens);
  write("tokenizer.json", "{ }");
  expect_new(tokens);
  tokens.validation.files.clear();
  tokens.validation.share = 0.25;
  expect_new(tokens);
  tokens.data.hold_out_share = 0.5;
  expect_new(tokens);
}

TEST_F(Corpus, HashesTheBytesOfATokenFileAndTheKindOfRandomData) {
  auto tokens = text_experiment();
  tokens.data.kind = DataKind::tokens;
  tokens.data.file = write("a.bin", "1234").filename();
  const auto before = hash_of(tokens);
  tokens.data.file = write("b.bin", "1234").filename();
  EXPECT_EQ(hash_of(tokens), before);
  write("b.bin", "1235");
  EXPECT_NE(hash_of(tokens), before);

  auto random = text_experiment();
  random.data.kind = DataKind::random;
  const auto kind = hash_of(random);
  random.seed = 7;
  EXPECT_EQ(hash_of(random), kind);
}

}  // namespace
}  // namespace wmtp
