#include "core/documents/foreign_formats.hpp"

#include <map>

#include "io/unpacked_file.hpp"
#include "support/data_fixture.hpp"
#include "support/packed.hpp"

namespace wmtp {
namespace {

class ForeignFormats : public DataTest {
 protected:
  std::string refused(const std::string& bytes, FileContent wanted) const {
    const auto file = write("a file", bytes);
    return error_of(ExitStatus::data, [&] { refuse_foreign_format(file, wanted); });
  }
  std::string refused_as_text(const std::string& bytes) const {
    const auto file = write("a.txt", bytes);
    return error_of(ExitStatus::data, [&] { check_text_file(file); });
  }
};

std::string lines_of(int count, const std::string& field) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "{\"" + field + "\": \"" + std::to_string(i) + "\"}\n";
  return text;
}

TEST_F(ForeignFormats, AreRefusedByTheirFirstBytesWithACommandThatConvertsThem) {
  const std::map<std::string, std::pair<std::string, std::string>> formats{
      {std::string("\x1f\x8b\x08\0\0", 5), {"found a gzip file", "gunzip -k " + at("a file")}},
      {"\x28\xb5\x2f\xfd more", {"found a zstd file", "zstd -d " + at("a file")}},
      {"PAR1 more", {"found a Parquet file", "wmtp-host data convert " + at("a file") + " --to " + at("a file.jsonl")}},
      {"ARROW1 more", {"found an Arrow file", "wmtp-host data convert "}},
      {"\x93NUMPY more", {"found a numpy file", "if it contains token ids, set [data] kind"}}};
  for (const auto& [bytes, message] : formats) {
    for (const auto& [wanted, name] :
         {std::pair(FileContent::text, "wanted text"), std::pair(FileContent::json_lines, "wanted JSON lines"),
          std::pair(FileContent::tokens, "wanted raw token ids")}) {
      if (wanted != FileContent::tokens && packing_of(bytes) != Packing::none) continue;
      if (wanted == FileContent::tokens && bytes.starts_with("\x93NUMPY")) continue;
      const std::string text = refused(bytes, wanted);
      EXPECT_TRUE(has(text, at("a file")) && has(text, message.first) && has(text, message.second) && has(text, name))
          << text;
    }
  }
}

TEST_F(ForeignFormats, AreNotSeenInTokenIdsThatBeginLikeGzip) {
  EXPECT_NO_THROW(refuse_foreign_format(write("ids.bin", "\x1f\x8b\x09\x01"), FileContent::tokens));
  EXPECT_TRUE(has(refused("\x1f\x8b\x08 text", FileContent::tokens), "gzip"));
}

TEST_F(ForeignFormats, AreSeenInsidePackedText) {
  EXPECT_NO_THROW(check_text_file(write("a.txt", gzip("words"))));
  EXPECT_NO_THROW(check_text_file(write("a.txt", zstd(""))));
  for (const auto& [inside, name] :
       {std::pair<std::string, std::string>("PAR1 more", "a Parquet file inside"), {gzip("a"), "a gzip file inside"}}) {
    std::string text = refused_as_text(gzip(inside));
    EXPECT_TRUE(has(text, "found " + name) && has(text, "unpack it first: gunzip -k " + at("a.txt"))) << text;
    text = refused_as_text(zstd(inside));
    EXPECT_TRUE(has(text, "found " + name)) << text;
  }
  const std::string archive = std::string(257, 'x') + "ustar and more";
  for (const std::string& bytes : {archive, gzip(archive)})
    EXPECT_TRUE(has(refused_as_text(bytes), "found a tar archive, wanted text; unpack it first: tar -xf"));
}

TEST_F(ForeignFormats, IncludeJsonLinesWithoutText) {
  for (const int count : {1, 9, 12}) {
    const std::string lines = lines_of(count, "content");
    for (const std::string& bytes : {lines, zstd(lines)}) {
      const std::string text = refused_as_text(bytes);
      EXPECT_TRUE(has(text, "a.txt: found JSON lines with the fields content") && has(text, "kind = \"records\"")) << text;
    }
    EXPECT_NO_THROW(check_text_file(write("a.txt", lines_of(count, "text"))));
  }
  EXPECT_TRUE(has(refused_as_text("\n  {\"a\": 1}\r\n\n" + lines_of(10, "text") + "the eleventh line\n"), "JSON"));
}

TEST_F(ForeignFormats, AllowTextThatContainsJson) {
  for (const std::string& text : {std::string(), std::string("\n\n"), std::string("{\n  \"a\": 1\n}\n"),
                                  lines_of(9, "a") + "words\n", std::string("[{\"a\": 1}]\n"),
                                  std::string("{\"a\": 1} and more\n"), std::string("words\n") + lines_of(20, "a")})
    EXPECT_NO_THROW(check_text_file(write("a.txt", text))) << text;
}

}  // namespace
}  // namespace wmtp
