// SHA-256 against the values of FIPS 180-2.
#include "base/sha256.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.hpp"
#include "support/refusal.hpp"

namespace wmtp {
namespace {

const std::string of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, MatchesThePublishedValues) {
  EXPECT_EQ(sha256_hex("abc"), of_abc);
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, IsTheSameInPartsAndFromAFile) {
  EXPECT_EQ(Sha256().add("a").add("bc").hex(), of_abc);
  const auto file = std::filesystem::temp_directory_path() / ("sha256_test." + std::to_string(::getpid()));
  std::ofstream(file) << "abc";
  EXPECT_EQ(file_sha256_hex(file), of_abc);
  std::filesystem::remove(file);
}

TEST(Sha256, NamesAFileThatCannotBeRead) {
  for (const std::filesystem::path file : {"/no/such/file", "/"}) {
    const std::string text = test::refusal(ExitStatus::data, [&] { file_sha256_hex(file); });
    EXPECT_TRUE(text.starts_with(file.string() + " ")) << file << ": " << text;
  }
}

}  // namespace
}  // namespace wmtp
