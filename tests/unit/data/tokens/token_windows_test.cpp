#include "data/tokens/token_windows.hpp"

#include <limits>
#include <numeric>
#include <vector>

#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

template <typename Id>
std::string bytes_of(const std::vector<Id>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(Id)};
}

std::vector<int64_t> window_of(const TokenWindows& windows, int64_t index, int64_t length) {
  std::vector<int64_t> ids(size_t(length), -1);
  windows.read(index, ids.data());
  return ids;
}

using TokenFile = DataTest;

TEST_F(TokenFile, ReadsIdsWindowByWindow) {
  const auto file = write("ids.bin", bytes_of<uint16_t>({1, 2, 3, 65535, 258, 0, 7}));
  const auto windows = open_token_file(file, "uint16", 3, 65536);
  EXPECT_EQ(windows->count(), 2);
  EXPECT_EQ(window_of(*windows, 0, 3), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(window_of(*windows, 1, 3), (std::vector<int64_t>{65535, 258, 0}));
}

TEST_F(TokenFile, ReadsIdsOf32Bits) {
  const auto file = write("ids.bin", bytes_of<uint32_t>({70000, 0x01020304, 128000, 4000000000}));
  const auto windows = open_token_file(file, "uint32", 2, int64_t{1} << 32);
  EXPECT_EQ(windows->count(), 2);
  EXPECT_EQ(window_of(*windows, 0, 2), (std::vector<int64_t>{70000, 0x01020304}));
  EXPECT_EQ(window_of(*windows, 1, 2), (std::vector<int64_t>{128000, 4000000000}));
}

TEST_F(TokenFile, AcceptsExactlyOneWindow) {
  EXPECT_EQ(open_token_file(write("ids.bin", bytes_of<uint16_t>({1, 2, 3, 4})), "uint16", 4, 5)->count(), 1);
}

TEST_F(TokenFile, NamesFilePositionAndIdBeyondTheVocabulary) {
  std::vector<uint16_t> ids(3000, 5);
  ids[2001] = 999;
  const auto windows = open_token_file(write("ids.bin", bytes_of(ids)), "uint16", 1000, 999);
  window_of(*windows, 0, 1000);
  const auto text = error_of(ExitStatus::data, [&] { window_of(*windows, 2, 1000); });
  EXPECT_TRUE(has(text, "ids.bin") && has(text, "position 2,001") && has(text, "id 999") && has(text, "size 999"))
      << text;
}

TEST_F(TokenFile, ReportsAFileThatHasShrunk) {
  const auto file = write("ids.bin", bytes_of(std::vector<uint16_t>(100, 1)));
  const auto windows = open_token_file(file, "uint16", 10, 2);
  std::filesystem::resize_file(file, 150);
  EXPECT_EQ(window_of(*windows, 6, 10), std::vector<int64_t>(10, 1));
  const auto text = error_of(ExitStatus::data, [&] { window_of(*windows, 7, 10); });
  EXPECT_TRUE(has(text, "ids.bin was truncated")) << text;
}

TEST_F(TokenFile, RefusesAMissingFile) {
  const auto text = error_of(ExitStatus::data, [&] { open_token_file(at("none.bin"), "uint16", 4, 5); });
  EXPECT_TRUE(has(text, "none.bin") && has(text, "does not exist")) << text;
}

TEST_F(TokenFile, RefusesAFolder) {
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { open_token_file(folder_, "uint16", 4, 5); }), "regular file"));
}

TEST_F(TokenFile, RefusesAnEmptyFile) {
  const auto file = write("ids.bin", "");
  EXPECT_TRUE(has(error_of(ExitStatus::data, [&] { open_token_file(file, "uint16", 4, 5); }), "is empty"));
}

TEST_F(TokenFile, RefusesASizeThatIsNoMultipleOfTheId) {
  const auto file = write("ids.bin", "123456");
  const auto text = error_of(ExitStatus::data, [&] { open_token_file(file, "uint32", 1, 5); });
  EXPECT_TRUE(has(text, "6 bytes") && has(text, "4-byte uint32")) << text;
}

TEST_F(TokenFile, RefusesFewerIdsThanOneWindow) {
  const auto file = write("ids.bin", bytes_of<uint16_t>({1, 2, 3}));
  const auto text = error_of(ExitStatus::data, [&] { open_token_file(file, "uint16", 4, 5); });
  EXPECT_TRUE(has(text, "3 ids") && has(text, "window of 4")) << text;
}

TEST_F(TokenFile, SkipsTheHeaderOfLlmC) {
  std::vector<int32_t> header(256);
  header[0] = 20240520, header[1] = 1, header[2] = 4;
  const auto file = write("ids.bin", bytes_of(header) + bytes_of<uint16_t>({10, 11, 12, 13}));
  const auto windows = open_token_file(file, "uint16", 2, 100);
  EXPECT_EQ(windows->count(), 2);
  EXPECT_EQ(window_of(*windows, 0, 2), (std::vector<int64_t>{10, 11}));
}

TEST_F(TokenFile, RefusesAHeaderOfLlmCWithAnotherVersionCountOrDtype) {
  const auto refused = [&](std::vector<int32_t> header, const std::string& dtype, size_t size = 1032) {
    header.resize(256);
    const std::string bytes = bytes_of(header) + bytes_of<uint16_t>({10, 11, 12, 13});
    return error_of(ExitStatus::data,
                    [&] { open_token_file(write("ids.bin", bytes.substr(0, size)), dtype, 2, 65536); });
  };
  const std::string version = refused({20240520, 2, 4}, "uint16");
  EXPECT_TRUE(has(version, "ids.bin begins with a header of llm.c") && has(version, "of version 2, wanted 1"))
      << version;
  EXPECT_TRUE(has(version, "tail -c +1025 " + at("ids.bin"))) << version;
  const std::string count = refused({20240520, 1, 5}, "uint16");
  EXPECT_TRUE(has(count, "declares 5 ids, but 4 follow")) << count;
  const std::string cut = refused({20240801, 7, 5}, "uint32", 512);
  EXPECT_TRUE(has(cut, "declares 5 ids, but 0 follow")) << cut;
  const std::string dtype = refused({20240801, 7, 2}, "uint16");
  EXPECT_TRUE(has(dtype, "uint32 ids") && has(dtype, "set data.dtype = \"uint32\"")) << dtype;
}

TEST_F(TokenFile, AcceptsIdsThatBeginLikeAHeader) {
  std::vector<int32_t> ids(256, 7);
  ids[0] = 20240520;
  EXPECT_EQ(open_token_file(write("ids.bin", bytes_of(ids)), "uint16", 2, 65536)->count(), 256);
}

TEST(RandomWindows, AreAFunctionOfSeedAndIndex) {
  const auto windows = random_windows(1, 64, 100), again = random_windows(1, 64, 100),
             other = random_windows(2, 64, 100);
  const int64_t far = std::numeric_limits<int64_t>::max() - 1;
  EXPECT_EQ(window_of(*windows, far, 64), window_of(*again, far, 64));
  EXPECT_NE(window_of(*windows, 0, 64), window_of(*windows, 1, 64));
  EXPECT_NE(window_of(*windows, 0, 64), window_of(*other, 0, 64));
  EXPECT_EQ(windows->count(), std::numeric_limits<int64_t>::max());
}

TEST(RandomWindows, AreUniformBelowTheVocabularysSize) {
  const auto ids = window_of(*random_windows(7, 70000, 7), 3, 70000);
  std::vector<int> times(7);
  for (int64_t id : ids) ++times.at(size_t(id));
  for (int count : times) EXPECT_NEAR(count, 10000, 500);  // five standard deviations
}

}  // namespace
}  // namespace wmtp
