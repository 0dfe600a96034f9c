#include "data/tokens/data_splits.hpp"

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<fs::path>;

const fs::path folder = "/data";

DataSplits splits(const std::vector<std::string>& names, bool are_json_lines = true) {
  Files files;
  for (const std::string& name : names) files.push_back(folder / name);
  return find_data_splits(folder, files, are_json_lines);
}

std::vector<std::string> names(const Files& files) {
  std::vector<std::string> result;
  for (const fs::path& file : files) result.push_back(file.lexically_relative(folder).string());
  return result;
}

using Names = std::vector<std::string>;

TEST(DataSplits, AreToldByTheNamesOfFilesAndFolders) {
  for (const auto* test : {"test.jsonl", "test-00000-of-00002.jsonl", "gsm8k_test.jsonl", "test_gen.jsonl.gz",
                           "test/a.jsonl", "eval/train.jsonl", "train/test.jsonl"})
    EXPECT_EQ(names(splits({"train.jsonl", test}).rest), (Names{test}));
  for (const auto* valid : {"val.jsonl", "dev.jsonl", "wiki.valid.jsonl", "Validation.jsonl", "valid/0.jsonl"})
    EXPECT_EQ(names(splits({"train.jsonl", valid}).validation), (Names{valid}));
  for (const auto* train : {"train.jsonl", "a-train.jsonl", "train_sft.jsonl", "training/0.jsonl", "more.jsonl",
                            "test-driven-development.jsonl", "contest.jsonl"})
    EXPECT_EQ(names(splits({train, "val.jsonl", "test.jsonl"}).train), (Names{train}));
}

TEST(DataSplits, OfDataWithoutOneForTrainingAreNone) {
  EXPECT_EQ(splits({"test-1.jsonl", "test-2.jsonl"}).train.size(), 2u);
  EXPECT_EQ(splits({"src/main.py", "src/test.py"}, /*are_json_lines=*/false).train.size(), 2u) << "a program";
  EXPECT_EQ(names(splits({"wiki.train.txt", "wiki.test.txt"}, /*are_json_lines=*/false).rest),
            (Names{"wiki.test.txt"}));
  const auto text = error_of(ExitStatus::data, [] { splits({"test.jsonl", "val.jsonl"}); });
  EXPECT_TRUE(has(text, "/data has splits for validation and for tests, such as val.jsonl and test.jsonl")) << text;
}

TEST(DataSplits, OfSeveralConfigurationsAreRefused) {
  const auto text = error_of(ExitStatus::data, [] { splits({"main/train.jsonl", "socratic/train.jsonl"}); });
  EXPECT_TRUE(has(text, "/data has the configurations main and socratic; name the folder of one")) << text;
  EXPECT_EQ(splits({"data/train/0/a.jsonl", "data/train/1/b.jsonl"}).train.size(), 2u) << "parts of one";
  EXPECT_EQ(splits({"a/rows.jsonl", "b/rows.jsonl"}).train.size(), 2u) << "no names of splits";
}

}  // namespace
}  // namespace wmtp
