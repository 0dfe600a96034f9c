#include "core/documents/foreign_formats.hpp"

#include <map>

#include "support/data_fixture.hpp"

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

const std::string records(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "{\"text\": \"" + std::to_string(i) + "\"}\n";
  return text;
}

TEST_F(ForeignFormats, AreRefusedByTheirFirstBytesWithACommandThatConvertsThem) {
  const std::map<std::string, std::pair<std::string, std::string>> formats{
      {std::string("\x1f\x8b\x08\0\0", 5), {"found a gzip file", "gunzip -k " + at("a file")}},
      {"\x28\xb5\x2f\xfd more", {"found a zstd file", "zstd -d " + at("a file")}},
      {"PAR1 more", {"found a Parquet file", "pandas.read_parquet(sys.argv[1])"}},
      {"ARROW1 more", {"found an Arrow file", "pandas.read_feather(sys.argv[1])"}},
      {"\x93NUMPY more", {"found a numpy file", "numpy.load(sys.argv[1])"}}};
  for (const auto& [bytes, message] : formats) {
    for (const auto& [wanted, name] :
         {std::pair(FileContent::text, "wanted text"), std::pair(FileContent::json_lines, "wanted JSON lines"),
          std::pair(FileContent::tokens, "wanted raw token ids")}) {
      const std::string text = refused(bytes, wanted);
      EXPECT_TRUE(has(text, at("a file")) && has(text, message.first) && has(text, message.second) && has(text, name))
          << text;
    }
  }
}

TEST_F(ForeignFormats, AreNotSeenInTokenIdsThatBeginLikeGzip) {
  EXPECT_NO_THROW(refuse_foreign_format(write("ids.bin", "\x1f\x8b\x09\x01"), FileContent::tokens));
  EXPECT_TRUE(has(refused("\x1f\x8b text", FileContent::text), "gzip"));
}

TEST_F(ForeignFormats, IncludeJsonLinesWhereTextIsExpected) {
  for (const int count : {1, 9, 12}) {
    const std::string text = refused_as_text(records(count));
    EXPECT_TRUE(has(text, "a.txt: found JSON lines") && has(text, "kind = \"records\"")) << text;
  }
  EXPECT_TRUE(
      has(refused_as_text("\n  {\"a\": 1}\r\n\n" + records(10) + "the eleventh line is not checked\n"), "JSON"));
}

TEST_F(ForeignFormats, AllowTextThatContainsJson) {
  for (const std::string& text :
       {std::string(), std::string("\n\n"), std::string("{\n  \"a\": 1\n}\n"), records(9) + "words\n",
        std::string("[{\"a\": 1}]\n"), std::string("{\"a\": 1} and more\n"), std::string("words\n") + records(20)})
    EXPECT_NO_THROW(check_text_file(write("a.txt", text))) << text;
}

}  // namespace
}  // namespace wmtp
