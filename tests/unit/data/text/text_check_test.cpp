#include "data/text/text_check.hpp"

#include "support/data_fixture.hpp"
#include "support/packed.hpp"

namespace wmtp {
namespace {

class TextChecks : public DataTest {
 protected:
  std::string refused(const std::string& bytes, const std::string& name = "a.txt") const {
    const auto file = write(name, bytes);
    return error_of(ExitStatus::data, [&] { check_text_files({file}); });
  }
  void take(const std::string& bytes) const { EXPECT_NO_THROW(check_text_files({write("a.txt", bytes)})) << bytes; }
};

std::string lines_of(int count, const std::string& field) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "{\"" + field + "\": \"" + std::to_string(i) + "\"}\n";
  return text;
}

TEST_F(TextChecks, RefuseJsonLinesWithoutText) {
  for (const int count : {1, 9, 12}) {
    const std::string lines = lines_of(count, "content");
    for (const std::string& bytes : {lines, zstd(lines)}) {
      const std::string text = refused(bytes);
      EXPECT_TRUE(has(text, "a.txt: found JSON lines with the fields content") && has(text, "kind = \"records\""))
          << text;
    }
    take(lines_of(count, "text"));
  }
  EXPECT_TRUE(has(refused("\n  {\"a\": 1}\r\n\n" + lines_of(10, "text") + "the eleventh line\n"), "JSON"));
}

TEST_F(TextChecks, AllowTextThatContainsJson) {
  for (const std::string& text : {std::string(), std::string("\n\n"), std::string("{\n  \"a\": 1\n}\n"),
                                  std::string("words\n") + lines_of(20, "a")})
    take(text);
}

TEST_F(TextChecks, AllowOneByteInAThousandThatIsNoUtf8) {
  const std::string clean(2000, 'x');
  take(clean + "\xff\xff");
  const std::string text = refused(clean + "\xff\xff\xff");
  EXPECT_TRUE(has(text,
                  "a.txt: found 3 bytes in no character of UTF-8, the first at byte 2,000, wanted at most one in a "
                  "thousand; convert it first (iconv -f ENCODING -t UTF-8 ") &&
              has(text, "with its encoding, such as LATIN1, GB18030 or SHIFT-JIS") &&
              has(text, "data.encoding = \"bytes\""))
      << text;
  take(std::string((1 << 20) - 1, 'x') + "\xc3\xa9");  // a character between two pieces of the file
  EXPECT_TRUE(has(refused(gzip("caf\xe9")), "found 1 byte in no character"));
}

TEST_F(TextChecks, CountInvalidBytesOfAllFilesTogether) {
  const auto large = write("large.txt", std::string(4000, 'x')), bad = write("bad.txt", "\xfb\xfb\xfb\xfb"),
             worse = write("worse.txt", "caf\xe9");
  EXPECT_NO_THROW(check_text_files({large, bad}));
  const std::string text = error_of(ExitStatus::data, [&] { check_text_files({large, bad, worse}); });
  EXPECT_TRUE(
      has(text, at("bad.txt") + ": found 5 bytes in no character of UTF-8, the first at byte 0, others in 1 more file"))
      << text;
}

TEST_F(TextChecks, FindOtherEncodingsAfterTheBeginning) {
  const std::string words = "From: somebody, on a day of 1 + 1 = 2 words\n",
                    russian =
                        "+BB8EQAQ4BDIENQRC, +BDwEOARA. +BCUEPgRABD4ESAQ+, +BEEEPwQwBEEEOAQxBD4 +BDEEPgQ7BEwESAQ+BDU.\n";
  std::string headers, plain, mails;
  while (headers.size() < 9000) headers += words, plain += "From: somebody\n";
  while (mails.size() < 300) mails += russian;
  EXPECT_TRUE(
      has(refused(headers + "\x1b$B$3$s\x1b(B\n"), "found text in ISO-2022-JP-2, wanted text; convert it first:"));
  EXPECT_TRUE(has(refused(plain + "~{Dc:C#,J@=g!#NRCGTZQ'O0SoQTD#PM!#~}\n~{TY<{!#~}\n"), "found text in HZ, wanted"));
  EXPECT_TRUE(has(refused(plain + mails), "found text in UTF-7, wanted"));
  EXPECT_TRUE(has(refused(gzip(plain + mails)), "found text in UTF-7 inside, wanted text; unpack it first: gunzip"));
  take(headers + mails);
  take(headers + "\xc3\xbc \x1b$B is written before Japanese\n");
}

TEST_F(TextChecks, FindNulBytesAnywhere) {
  const std::string bytes = std::string(3 << 20, 'x') + std::string(1, '\0');
  EXPECT_TRUE(has(refused(bytes), "found a NUL byte at byte 3,145,728, wanted text"));
}

}  // namespace
}  // namespace wmtp
