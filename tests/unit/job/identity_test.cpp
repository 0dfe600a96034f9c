#include "job/identity.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/sha256.hpp"

namespace wmtp {
namespace {

class IdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "identity-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    experiment_.file = folder_ / "a.toml";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  std::string hash(const std::string& name) const { return weights_content_hash(folder_ / name, database()); }
  std::filesystem::path database() const { return folder_ / "runs" / "log.db"; }

  ExitStatus refusal(const std::string& weights, const std::string& part) const {
    try {
      resolve_weights(weights, experiment_, database());
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      return error.status();
    }
    return ExitStatus::done;
  }

  std::filesystem::path folder_;
  Experiment experiment_;
};

TEST_F(IdentityTest, HashesAFileByItsContent) {
  write("a.safetensors", "weights");
  write("b.safetensors", "weights");
  EXPECT_EQ(hash("a.safetensors"), sha256_hex("weights"));
  EXPECT_EQ(hash("a.safetensors"), hash("b.safetensors"));
}

TEST_F(IdentityTest, HashesAFileWithTheStatementOfItsShape) {
  write("x/a.safetensors", "weights");
  std::set<std::string> hashes{hash("x/a.safetensors")};
  const auto expect_new_after = [&](const std::string& name, const std::string& text) {
    write(name, text);
    EXPECT_TRUE(hashes.insert(hash("x/a.safetensors")).second) << name << ": " << text;
  };
  for (const char* name : {"x/params.json", "x/config.json"}) {
    expect_new_after(name, R"({"rope_theta": 10000.0})");
    expect_new_after(name, R"({"rope_theta": 50000.0})");
    std::filesystem::remove(folder_ / "x/params.json");
  }
  expect_new_after("x/mtp_heads.json", "{}");
  write("x/tokenizer_config.json", "{}");
  EXPECT_TRUE(hashes.contains(hash("x/a.safetensors"))) << "it states no shape";
}

TEST_F(IdentityTest, HashesARunsModelByItsManifest) {
  write("model/manifest.json", "sums of all");
  write("model/a.safetensors", "weights");
  EXPECT_EQ(hash("model"), sha256_hex("sums of all"));
}

TEST_F(IdentityTest, HashesAFolderByTheNamesAndContentsOfItsFiles) {
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

TEST_F(IdentityTest, RefusesAFolderWithoutWeights) {
  write("empty/README", "nothing");
  EXPECT_THROW(hash("empty"), Error);
}

TEST_F(IdentityTest, FindsWeightsBesideTheExperiment) {
  write("weights/a.safetensors", "1");
  EXPECT_EQ(resolve_weights("weights", experiment_, database()), folder_ / "weights");
  EXPECT_EQ(refusal("absent", (folder_ / "absent").string()), ExitStatus::data);
}

TEST_F(IdentityTest, RefusesARunThatTheLogLacks) { EXPECT_EQ(refusal("run:rho1", "no run log at"), ExitStatus::data); }

TEST_F(IdentityTest, FindsNoModelInAnEmptyLog) { EXPECT_FALSE(reusable_run(std::string(64, '0'), database())); }

}  // namespace
}  // namespace wmtp
