#include "job/weights_hash.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "support/temporary_folder.hpp"

namespace wmtp {
namespace {

class WeightsHash : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  std::string hash(const std::string& name) const {
    return weights_content_hash(folder_.path() / name, folder_.path() / "runs" / "log.db");
  }

  test::TemporaryFolder folder_;
};

TEST_F(WeightsHash, HashesAFileByItsContent) {
  write("a.safetensors", "weights");
  write("b.safetensors", "weights");
  EXPECT_EQ(hash("a.safetensors"), sha256_hex("weights"));
  EXPECT_EQ(hash("a.safetensors"), hash("b.safetensors"));
}

TEST_F(WeightsHash, HashesAFileWithTheStatementOfItsShape) {
  write("x/a.safetensors", "weights");
  std::set<std::string> hashes{hash("x/a.safetensors")};
  const auto expect_new_after = [&](const std::string& name, const std::string& text) {
    write(name, text);
    EXPECT_TRUE(hashes.insert(hash("x/a.safetensors")).second) << name << ": " << text;
  };
  for (const char* name : {"x/params.json", "x/config.json"}) {
    expect_new_after(name, R"({"rope_theta": 10000.0})");
    expect_new_after(name, R"({"rope_theta": 50000.0})");
    std::filesystem::remove(folder_.path() / "x/params.json");
  }
  expect_new_after("x/mtp_heads.json", "{}");
  write("x/tokenizer_config.json", "{}");
  EXPECT_TRUE(hashes.contains(hash("x/a.safetensors"))) << "it states no shape";
}

TEST_F(WeightsHash, HashesARunsModelByItsManifest) {
  write("model/manifest.json", "sums of all");
  write("model/a.safetensors", "weights");
  EXPECT_EQ(hash("model"), sha256_hex("sums of all"));
}

TEST_F(WeightsHash, HashesAFolderByTheNamesAndContentsOfItsFiles) {
  write("one/a.safetensors", "1");
  write("one/b.safetensors", "2");
  write("one/README", "not part of it");
  write("two/b.safetensors", "2");
  write("two/a.safetensors", "1");
  EXPECT_EQ(hash("one"), hash("two"));
  write("three/a.safetensors", "2");
  write("three/b.safetensors", "1");
  EXPECT_NE(hash("one"), hash("three"));
}

TEST_F(WeightsHash, RefusesAFolderWithoutWeights) {
  write("empty/README", "nothing");
  EXPECT_THROW(hash("empty"), Error);
}

}  // namespace
}  // namespace wmtp
