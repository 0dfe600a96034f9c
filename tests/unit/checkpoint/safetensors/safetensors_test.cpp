#include "checkpoint/safetensors/safetensors.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <random>

#include "checkpoint/safetensors/safetensors_header.hpp"
#include "support/test_folder.hpp"

namespace wmtp::test {

TEST(Safetensors, ReadsBackTensorsWrittenInAnyOrder) {
  TestFolder folder;
  const std::vector<float> weight = values_of(1, 12);
  const std::vector<int64_t> ids{1, -2, 3};
  SafetensorsWriter writer(
      folder / "a.safetensors",
      {{"ids", "I64", {3}}, {"weight \"q\"\né", "F32", {3, 4}}, {"none", "F16", {0, 7}}, {"one", "U8", {}}},
      {{"format", "pt"}, {"ключ", "значение"}});
  writer.write("weight \"q\"\né", 16, weight.data() + 4, 32);
  writer.write("one", 0, "\x2a", 1);
  writer.write("ids", 0, ids.data(), 24);
  writer.write("weight \"q\"\né", 0, weight.data(), 16);
  writer.finish();
  EXPECT_EQ(writer.file_size(), int64_t(fs::file_size(folder / "a.safetensors")));

  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_EQ(file.entries().size(), 4u);
  EXPECT_EQ(file.metadata().at("ключ"), "значение");
  const TensorEntry* entry = file.find("weight \"q\"\né");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(entry->dtype, "F32");
  EXPECT_EQ(entry->begin % 8, 0);
  EXPECT_EQ(read_all<float>(file, entry->name), weight);
  EXPECT_EQ(read_all<int64_t>(file, "ids"), ids);
  EXPECT_EQ(read_all<uint8_t>(file, "one"), std::vector<uint8_t>{42});
  EXPECT_TRUE(file.find("one")->shape.empty());
  EXPECT_EQ(file.find("none")->begin, file.find("none")->end);
  EXPECT_EQ(file.find("two"), nullptr);
}

TEST(Safetensors, WriterRefusesMistakesOfTheCaller) {
  TestFolder folder;
  const std::vector<TensorEntry> one{{"a", "U8", {4}}};
  EXPECT_SAYS(refusal(ExitStatus::bug,
                      [&] {
                        SafetensorsWriter writer(folder / "1", one, {});
                        writer.write("a", 0, "abc", 3);
                        writer.finish();
                      }),
              "has 4 bytes, 3 were written");
  refusal(ExitStatus::bug, [&] { SafetensorsWriter(folder / "2", one, {}).write("a", 2, "abc", 3); });
  refusal(ExitStatus::bug, [&] { SafetensorsWriter(folder / "3", one, {}).write("a", -1, "abc", 3); });
  refusal(ExitStatus::bug, [&] { SafetensorsWriter(folder / "4", one, {}).write("b", 0, "abc", 3); });
  refusal(ExitStatus::bug, [&] { SafetensorsWriter(folder / "5", {one[0], one[0]}, {}); });
  refusal(ExitStatus::bug, [&] { SafetensorsWriter(folder / "6", {{"a", "F99", {4}}}, {}); });
  refusal(ExitStatus::bug, [&] { SafetensorsWriter(folder / "7", {{"\xff", "U8", {4}}}, {}); });
}

struct BadFile {
  std::string text;      ///< whole file
  std::string expected;  ///< part of the message
};

std::string entry_file(const std::string& entry, size_t bytes) {
  return with_length("{\"w\":" + entry + "}") + std::string(bytes, 'x');
}

TEST(Safetensors, RefusesEveryInvalidHeader) {
  const std::string good = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const auto two = [](const std::string& first, const std::string& second, size_t bytes) {
    return with_length(R"({"a":{"dtype":"U8","shape":)" + first + R"(},"b":{"dtype":"U8","shape":)" + second + "}}") +
           std::string(bytes, 'x');
  };
  const std::string deep(100'000, '[');
  std::string many_dimensions = "[1";
  for (int i = 0; i < 40; ++i) many_dimensions += ",1";
  const std::vector<BadFile> files{
      {"", "it has 0 bytes"},
      {"12345678", "it has 8 bytes"},
      {std::string("\0\0\0\0\0\0\0\0{}", 10), "does not begin with {"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "18446744073709551615 bytes; the limit is 16777216"},
      {std::string("\0\0\0\0\0\0\0\x80{}", 10), "9223372036854775808 bytes; the limit is 16777216"},
      {std::string("\1\0\0\1\0\0\0\0{}", 10), "16777217 bytes; the limit is 16777216"},
      {std::string("\3\0\0\0\0\0\0\0{}", 10), "its header has 3 bytes, the file has 10"},
      {with_length("[]"), "does not begin with {"},
      {with_length(" {}"), "does not begin with {"},
      {with_length("{"), "invalid JSON"},
      {with_length("{}x"), "invalid JSON"},
      {with_length("{}{}"), "invalid JSON"},
      {with_length("{\"\xff\":{}}"), "invalid JSON"},
      {with_length("{\"a\":" + deep), "has an array where an object was wanted"},
      {with_length("{\"a\":3}"), "has a number where an object was wanted"},
      {with_length("{\"a\":null}"), "has null where an object was wanted"},
      {with_length("{\"a\":{}}"), "has no dtype"},
      {with_length("{\"a\":{\"dtype\":{}}}"), "has an object where the dtype's name was wanted"},
      {entry_file(good, 7), "but the file has 7 bytes of tensors"},
      {entry_file(good, 9), "1 bytes follow the last tensor"},
      {entry_file(R"({"dtype":"F32","shape":[2]})", 8), "has no data_offsets"},
      {entry_file(R"({"dtype":"F32","data_offsets":[0,8]})", 8), "has no shape"},
      {entry_file(R"({"dtype":"F31","shape":[2],"data_offsets":[0,8]})", 8), "dtype \"F31\""},
      {entry_file(R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})", 8), "where the dtype's name was wanted"},
      {entry_file(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8), "has dtype twice"},
      {entry_file(R"({"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]})", 8), "has shape twice"},
      {entry_file(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})", 8), "has the key \"x\""},
      {entry_file(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8), "8 bytes by its data_offsets, 12 by"},
      {entry_file(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", 8), "has the number -2 where an integer"},
      {entry_file(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", 8), "where an integer"},
      {entry_file(R"({"dtype":"F32","shape":["2"],"data_offsets":[0,8]})", 8), "has a string where an integer"},
      {entry_file(R"({"dtype":"F32","shape":[[2]],"data_offsets":[0,8]})", 8), "has an array where an integer"},
      {entry_file(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})", 8), "where the list of the shape was wanted"},
      {entry_file(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]})", 8), "more than 2^63"},
      {entry_file(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})", 8), "too large"},
      {entry_file(R"({"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]})", 8), "where an integer"},
      {entry_file(R"({"dtype":"U8","shape":)" + many_dimensions + R"(],"data_offsets":[0,1]})", 1), "more than 32"},
      {entry_file(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", 8), "has 1 data_offsets"},
      {entry_file(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})", 8), "more than 2 numbers"},
      {entry_file(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", 8), "end is before their begin"},
      {entry_file(R"({"dtype":"F32","shape":[2],"data_offsets":[1,9]})", 9), "there is a hole"},
      {entry_file(R"({"dtype":"F32","shape":[2],"data_offsets":[9223372036854775800,9223372036854775807]})", 8),
       "but the file has 8 bytes"},
      {two(R"([4],"data_offsets":[0,4])", R"([4],"data_offsets":[2,6])", 6), "they overlap"},
      {two(R"([4],"data_offsets":[0,4])", R"([4],"data_offsets":[0,4])", 4), "they overlap"},
      {two(R"([4],"data_offsets":[0,4])", R"([4],"data_offsets":[5,9])", 9), "there is a hole"},
      {with_length("{\"w\":" + good + ",\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]}}") + "12345678",
       "occurs twice"},
      {with_length(R"({"__metadata__":{"a":1}})"), "__metadata__ has a number where a string was wanted"},
      {with_length(R"({"__metadata__":{"a":{}}})"), "__metadata__ has an object where a string was wanted"},
      {with_length(R"({"__metadata__":[]})"), "__metadata__ has an array"},
      {with_length(R"({"__metadata__":{"a":"1","a":"2"}})"), "__metadata__ has the key \"a\" twice"},
      {with_length(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ occurs twice"},
      {with_length("{\"" + std::string(1 << 17, 'x') + "\":3}"), "65536 bytes without a quote before byte 655"},
      {with_length("{\"" + std::string(9, 'x') + "\\\"" + std::string(65536, 'x') + "\":3}"), "without a quote"},
  };
  TestFolder folder;
  for (size_t i = 0; i < files.size(); ++i) {
    const fs::path path = folder / ("bad-" + std::to_string(i) + ".safetensors");
    put(path, files[i].text);
    const std::string text = refusal(ExitStatus::data, [&] { SafetensorsFile file(path); });
    EXPECT_SAYS(text, files[i].expected) << " case " << i;
    EXPECT_SAYS(text, path.string());
  }
  put(folder / "good.safetensors", entry_file(good, 8));
  EXPECT_EQ(SafetensorsFile(folder / "good.safetensors").entries().size(), 1u);
}

TEST(Safetensors, RefusesPicklesAndExplainsTheConversion) {
  TestFolder folder;
  put(folder / "it's.pt", "PK\x03\x04" + std::string(100, '\0'));
  const std::string text = refusal(ExitStatus::data, [&] { SafetensorsFile file(folder / "it's.pt"); });
  EXPECT_SAYS(text, "save_file(");
  EXPECT_SAYS(text, "it'\\''s.safetensors'");
  put(folder / "model.bin", "\x80\x02\x8a\x0alF\x9c\x46\xf9" + std::string(100, 'x'));
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { SafetensorsFile file(folder / "model.bin"); }), "is a pickle");
  // A valid file whose header length happens to start like a pickle (0x0280 bytes) is read, whatever its name.
  std::string header = "{}";
  header.append(0x280 - header.size(), ' ');
  put(folder / "sound.bin", with_length(header));
  EXPECT_TRUE(SafetensorsFile(folder / "sound.bin").entries().empty());
}

TEST(Safetensors, RefusesAMissingFileAFolderAndAPipeImmediately) {
  TestFolder folder;
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { SafetensorsFile file(folder / "none"); }), "does not exist");
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { SafetensorsFile file(folder.path()); }), "not a regular file");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_SAYS(refusal(ExitStatus::data, [&] { SafetensorsFile file(folder / "pipe"); }), "not a regular file");
}

TEST(Safetensors, EscapesControlCharactersOfTensorNames) {
  const std::string text = refusal(ExitStatus::data, [&] {
    parse_safetensors_header(R"({"\u001b]0;owned\u0007":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 85, "f");
  });
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_SAYS(text, "\\x1b]0;owned\\x07");
}

TEST(Safetensors, AMaliciousHeaderOfMaximalSizeUsesLittleMemory) {
  const auto full = [](std::string header, const std::function<std::string(int)>& piece) {
    for (int i = 0; header.size() < size_t(max_safetensors_header) - 32; ++i) header += piece(i);
    return header;
  };
  const std::vector<BadFile> headers{
      {full(R"({"a":{"dtype":"U8","data_offsets":[0,0],"shape":[)", [](int) { return "0,"; }), "more than 32"},
      {full(R"({"__metadata__":{"":"")", [](int i) { return ",\"" + std::to_string(i) + "\":\"\""; }),
       "more than 4096"},
      {full("{\"a\":", [](int) { return "["; }), "an array where an object"}};
  for (const BadFile& header : headers) {
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    EXPECT_SAYS(refusal(ExitStatus::data, [&] { parse_safetensors_header(header.text, max_safetensors_header, "f"); }),
                header.expected);
    ::getrusage(RUSAGE_SELF, &after);
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 16 << 10);
  }
}

double seconds_of_this_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

TEST(Safetensors, RefusesAMaliciousHeaderWithinTenMilliseconds) {
  TestFolder folder;
  const auto entry = [](const std::string& shape, const std::string& offsets) {
    return R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  std::string length(8, '\xff');
  const std::vector<std::string> files{
      length + "{",
      std::string("\0\0\0\1\0\0\0\0{", 9) + std::string(1 << 20, ' '),
      with_length(entry("[1000000000000,1000000000000]", "[0,8]")) + "12345678",
      with_length(entry("[4611686018427387904]", "[0,9223372036854775807]")) + "12345678",
      with_length(entry("[0,9223372036854775807,9223372036854775807]", "[0,8]")) + "12345678",
      with_length("{\"a\":" + std::string(1 << 20, '[')),
      with_length("{\"" + std::string(1 << 20, 'x') + "\":3}"),
      with_length("{\"" + std::string(1 << 20, '\\') + "\":3}"),
      with_length("{" + std::string(15 << 20, ' ') + "}"),
      with_length("{\"a\":" + std::string(1 << 20, '7') + "}")};
  for (size_t i = 0; i < files.size(); ++i) {
    const fs::path path = folder / std::to_string(i);
    put(path, files[i]);
    // CPU time of the thread, best of many runs: other load on the machine can only add to it.
    double best = 1;
    for (int trial = 0; trial < 30; ++trial) {
      const double begin = seconds_of_this_thread();
      EXPECT_NE(refusal(ExitStatus::data, [&] { SafetensorsFile file(path); }), "");
      best = std::min(best, seconds_of_this_thread() - begin);
    }
    EXPECT_LT(best, 0.010) << "case " << i;
  }
}

TEST(Safetensors, TwentyThousandMutatedHeadersNeverCrash) {
  TestFolder folder;
  std::mt19937 random(20261121);
  const std::string seed =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"I64","shape":[],"data_offsets":[24,32]},"c":{"dtype":"BF16","shape":[0,9],"data_offsets":[32,32]}})";
  const std::vector<std::string> words{"{",      "}",
                                       "[",      "]",
                                       ",",      ":",
                                       "\"",     "-1",
                                       "0",      "18446744073709551616",
                                       "1e999",  "9223372036854775807",
                                       "null",   "\"dtype\":",
                                       "\"a\":", "\\u0000",
                                       "\xc3"};
  int accepted = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string header = seed;
    for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % header.size();
      switch (random() % 4) {
        case 0:
          header[at] = char(random());
          break;
        case 1:
          header.erase(at, random() % 9);
          break;
        case 2:
          header.insert(at, words[random() % words.size()]);
          break;
        default:
          header.insert(at, header.substr(random() % header.size(), random() % 30));
          break;
      }
      if (header.empty()) header = "{";
    }
    try {
      const SafetensorsHeader read = parse_safetensors_header(header, 8 + int64_t(header.size()) + 32, "f");
      for (const TensorEntry& entry : read.entries) {
        ASSERT_GE(entry.begin, int64_t(header.size()) + 8);
        ASSERT_LE(entry.end, int64_t(header.size()) + 40);
      }
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(error.status(), ExitStatus::data);
      ++refused;
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 10'000);
}

}  // namespace wmtp::test
