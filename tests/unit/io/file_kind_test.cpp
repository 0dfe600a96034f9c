#include "io/file_kind.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "io/decompressed_file.hpp"
#include "support/data_fixture.hpp"
#include "support/packed.hpp"

namespace wmtp {
namespace {

using namespace std::string_literals;

class FileKinds : public DataTest {
 protected:
  std::string refused(const std::string& bytes, FileUse use, const std::string& name = "a file") const {
    const auto file = write(name, bytes);
    return error_of(ExitStatus::data, [&] { check_file_kind(file, use); });
  }
  void take(const std::string& bytes, FileUse use, const std::string& name = "a file") const {
    EXPECT_NO_THROW(check_file_kind(write(name, bytes), use)) << name << ": " << bytes.substr(0, 40);
  }
  bool are_json_lines(const std::string& bytes, const std::string& name = "a.txt") const {
    return has_json_lines(write(name, bytes));
  }
};

/// Every second byte NUL, as UTF-16 writes ASCII; `first`: whether NUL comes first.
std::string widened(const std::string& text, int zeros, bool first) {
  std::string wide;
  for (const char c : text)
    wide += first ? std::string(size_t(zeros), '\0') + c : std::string(1, c) + std::string(size_t(zeros), '\0');
  return wide;
}

TEST_F(FileKinds, OfTokenIdsAreNamedWhereTextIsWanted) {
  const std::string ids = widened("ids of one byte each", 1, false);
  const std::string advice = "; if it contains token ids, set [data] kind = \"tokens\" and file = \"";
  EXPECT_TRUE(has(refused(ids, FileUse::text, "train.bin"), advice + at("train.bin") + "\""));
  EXPECT_TRUE(has(refused("\x01\x7f\0\xfe"s, FileUse::text, "train.bin"), advice));
  EXPECT_FALSE(has(refused(ids, FileUse::text, "train.txt"), "token ids"));
}

TEST_F(FileKinds, AreRefusedByTheirFirstBytesWithACommandThatConvertsThem) {
  const std::string quoted = "'" + at("a file") + "'";
  const std::map<std::string, std::pair<std::string, std::string>> kinds{
      {"\x1f\x8b\x08\0\0"s, {"found a gzip file", "gunzip -k < " + quoted + " > '" + at("a file.unpacked")}},
      {"\x28\xb5\x2f\xfd more", {"found a zstd file", "zstd -d < " + quoted}},
      {"PAR1 more",
       {"found a Parquet file", "wmtp-host data convert " + quoted + " --to '" + at("a file.jsonl") + "'"}},
      {"ARROW1 more", {"found an Arrow file", "wmtp-host data convert "}},
      {"\x93NUMPY more", {"found a numpy file", "if it contains token ids, set [data] kind"}},
      {"PK\3\4 more", {"found a zip archive", "unzip " + quoted}},
      {"\xfd"
       "7zXZ\0 more"s,
       {"found an xz file", "xz -dk " + quoted}},
      {"BZh91AY&SY more", {"found a bzip2 file", "bunzip2 -k " + quoted}},
      {"%PDF-1.7 more", {"found a PDF document", "pdftotext " + quoted}},
      {"\x89PNG\r\n\x1a\n more", {"found a PNG image", ""}},
      {"SQLite format 3\0 more"s, {"found an SQLite database", ""}},
      {"RIFF\x24\x08\0\0WAVEfmt \x10"s, {"found a WAV file of sound", ""}},
      {"OggS\0\2 more"s, {"found an Ogg file of sound", ""}},
      {"ID3\4\0 more"s, {"found an MP3 file of sound", ""}},
      {std::string(257, 'x') + "ustar and more", {"found a tar archive", "tar -xf " + quoted}}};
  for (const auto& [bytes, message] : kinds) {
    for (const auto& [use, name] :
         {std::pair(FileUse::text, "wanted text"), std::pair(FileUse::json_lines, "wanted JSON lines"),
          std::pair(FileUse::tokens, "wanted raw token ids")}) {
      if (use != FileUse::tokens && detect_compression(bytes) != Compression::none) continue;
      if (use == FileUse::tokens && bytes.starts_with("\x93NUMPY")) continue;
      const std::string text = refused(bytes, use);
      EXPECT_TRUE(has(text, at("a file")) && has(text, message.first) && has(text, message.second) && has(text, name))
          << text;
    }
  }
}

TEST_F(FileKinds, OfTextInWhichAnArchiveOrADocumentIsWrittenAreRefused) {
  for (const auto& [bytes, name] :
       {std::pair("WARC/1.0\r\nWARC-Type: conversion\r\n\r\nwords\n"s, "found a WARC file of web pages"),
        std::pair("begin 755 a\nM"s + std::string(60, '!') + "\n", "found a uuencoded file"),
        std::pair("!<arch>\nwords/\n"s, "found an ar archive"), std::pair("070701000000"s, "found a cpio archive"),
        std::pair("!<arch>\nwords/\n"s, "found an ar archive"), std::pair("070701000000"s, "found a cpio archive"),
        std::pair("%!PS-Adobe-3.0\n"s, "found a PostScript document")})
    for (const FileUse use : {FileUse::text, FileUse::json_lines}) {
      EXPECT_TRUE(has(refused(bytes, use), name)) << refused(bytes, use);
      EXPECT_TRUE(has(refused(gzip(bytes), use), name + " inside"s)) << refused(gzip(bytes), use);
    }
  take("Its name is WARC/1.0.\n", FileUse::text);
}

TEST_F(FileKinds, AreRefusedAsTextIfTheyAreInUtf16OrUtf32) {
  const std::string prose = "It was a bright cold day in April, and the clocks were striking thirteen.\n";
  const std::map<std::string, std::string> texts{{"\xff\xfe" + widened(prose, 1, false), "UTF-16"},
                                                 {"\xfe\xff" + widened(prose, 1, true), "UTF-16"},
                                                 {widened(prose, 1, false), "UTF-16LE"},
                                                 {widened(prose, 1, true), "UTF-16BE"},
                                                 {widened("{\"text\": \"a\"}\n", 1, false), "UTF-16LE"},
                                                 {"\xff\xfe\0\0"s + widened(prose, 3, false), "UTF-32"},
                                                 {widened(prose, 3, false), "UTF-32LE"},
                                                 {widened(prose, 3, true), "UTF-32BE"}};
  for (const auto& [bytes, encoding] : texts) {
    const std::string text = refused(bytes, FileUse::text);
    EXPECT_TRUE(has(text, "found text in " + encoding + ", wanted text; convert it first: iconv -f " + encoding))
        << text;
  }
}

TEST_F(FileKinds, AreRefusedAsTextIfTheyContainNul) {
  EXPECT_TRUE(has(refused("words\0more words"s, FileUse::text), "found a NUL byte at byte 5, wanted text"));
  EXPECT_TRUE(has(refused(std::string(6000, '\0'), FileUse::text), "found a NUL byte at byte 0"));
  // "Мир и\nты" and "你好 吗\n": only spaces and newlines contain NUL
  for (const auto& [bytes, encoding] :
       {std::pair("\x1c\x04\x38\x04\x40\x04 \0\x38\x04\n\0\x42\x04\x4b\x04"s, "UTF-16LE"),
        std::pair("\x4f\x60\x59\x7d\0 \x54\x17\0\n\xd8\x3d\xde\x42"s, "UTF-16BE")})
    EXPECT_TRUE(has(refused(bytes, FileUse::text), "found a NUL byte at byte ") &&
                has(refused(bytes, FileUse::text), "wanted text; if it is text in "s + encoding +
                                                       ", convert it first: iconv -f " + encoding + " -t UTF-8 "))
        << refused(bytes, FileUse::text);
  EXPECT_FALSE(has(refused("\1\0words\2"s, FileUse::text), "UTF-16"));
  std::string big_endian, little_endian;  // "语言。", without spaces: the second character ends with NUL
  for (int i = 0; i < 20; ++i) big_endian += "\x8b\xed\x8a\0\x30\x02"s, little_endian += "\xed\x8b\0\x8a\x02\x30"s;
  EXPECT_TRUE(has(refused(big_endian, FileUse::text), "if it is text in UTF-16BE, convert it first"));
  EXPECT_TRUE(has(refused(little_endian, FileUse::text), "if it is text in UTF-16LE, convert it first"));
  EXPECT_TRUE(has(refused("\x40\0\0\0\0\0\0\0{\"a\": {}}"s, FileUse::text), "found a safetensors file"));
}

TEST_F(FileKinds, AreRefusedForEveryUseIfTheyArePointersOfGitLfs) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
  for (const FileUse use : {FileUse::text, FileUse::json_lines, FileUse::tokens, FileUse::table, FileUse::tokenizer})
    EXPECT_TRUE(
        has(refused(pointer, use), "is a pointer of Git LFS, in place of the file; download the file: git lfs pull"));
  for (const std::string& written :
       {"\xef\xbb\xbf" + pointer, "\n \r\n" + pointer, gzip(pointer), zstd("\n" + pointer)})
    EXPECT_TRUE(has(refused(written, FileUse::text), "is a pointer of Git LFS")) << written;
}

TEST_F(FileKinds, AreRefusedIfTheyArePointersOfOtherPrograms) {
  const std::string key = "SHA256E-s123--00.txt";
  for (const std::string& pointer : {"/annex/objects/" + key + "\n", "../.git/annex/objects/XX/YY/" + key + "/" + key,
                                     gzip("/annex/objects/" + key)})
    EXPECT_TRUE(has(refused(pointer, FileUse::text, "a.txt"),
                    "is a pointer of git-annex, in place of the file; download the file: git annex get " + at("a.txt")))
        << pointer;
  EXPECT_TRUE(has(refused("# xet version 0\nfilesize = 1\n", FileUse::json_lines), "is a pointer of Xet"));
  take("Its keys are in .git/annex/objects/ of the repository.\n", FileUse::text);
}

TEST_F(FileKinds, OfTablesThatOnlyTheirNameTellsAreConvertedFirst) {
  const std::string table = "text,label\n\"a, b\",1\n";
  for (const std::string name : {"a.csv", "a.TSV", "b.csv"}) {
    const std::string convert =
        "convert it first: wmtp-host data convert " + at(name) + " --to " + at(name.substr(0, 1));
    const std::string text = refused(table, FileUse::text, name), lines = refused(table, FileUse::json_lines, name);
    EXPECT_TRUE(has(text, "found a name of CSV, wanted text; " + convert)) << text;
    EXPECT_TRUE(has(text, "; if it is plain text, rename it, or exclude it with data.exclude")) << text;
    EXPECT_TRUE(has(lines, "found a name of CSV, wanted JSON lines; " + convert)) << lines;
    take(table, FileUse::table, name);
  }
  EXPECT_TRUE(
      has(refused(gzip(table), FileUse::text, "a.csv.gz"), "found a name of CSV inside, wanted text; unpack it"));
  take(table, FileUse::text, "a.txt");  // of one row
}

TEST_F(FileKinds, OfOfficeAndOfOtherProgramsAreRefusedByName) {
  EXPECT_TRUE(has(refused("PK\3\4 more", FileUse::text, "a.xlsx"),
                  "found an Office document or an e-book, wanted text; save it as text first, a spreadsheet as CSV"));
  EXPECT_TRUE(has(refused("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02", FileUse::tokens, "model.bin"),
                  "found a pickle of PyTorch, wanted raw token ids; name another file"));
  EXPECT_TRUE(has(refused("\xc6\xd7\x34\x01\x03\0\0\0"s, FileUse::tokens, "model.bin"), "found a model of llm.c"));
  EXPECT_TRUE(has(refused("\x8a\xd8\x34\x01\x01\0\0\0"s, FileUse::tokens, "val.bin"), "found an evaluation of llm.c"));
}

TEST_F(FileKinds, AreRefusedAsTextIfTheyShiftToCharactersOfTwoLetters) {
  EXPECT_TRUE(has(refused("\x1b$B$3$s\x1b(B\n", FileUse::text),
                  "found text in ISO-2022-JP-2, wanted text; convert it first: iconv -f ISO-2022-JP-2 -t UTF-8 "));
  EXPECT_TRUE(has(refused("\x1b$)C\n\x0e>H\x0f\n", FileUse::text), "found text in ISO-2022-KR"));
  EXPECT_TRUE(has(refused("\x1b$)A\x0eVPND\x0f\n", FileUse::text), "found text in ISO-2022-CN-EXT"));
  EXPECT_TRUE(has(refused("\x1b$(CGQ1[\x1b(B\n", FileUse::text), "found text in ISO-2022-JP-2"));
  EXPECT_TRUE(has(refused("\x1b(I6E\x1b(B\n", FileUse::text), "found text in ISO-2022-JP-3"));
  take("\x1b[31mred\x1b[0m\n", FileUse::text);
}

TEST_F(FileKinds, AreRefusedAsTextIfTheyWriteOtherCharactersWithSignsOfAscii) {
  const std::string hz = "~{Dc:C#,J@=g!#NRCGTZQ'O0SoQTD#PM!#~}\n~{TY<{!#~}\n";
  for (const FileUse use : {FileUse::text, FileUse::json_lines}) {
    const std::string text = refused(hz, use);
    EXPECT_TRUE(has(text, "found text in HZ, wanted ") && has(text, ".decode('hz').encode())\" < '" + at("a file")))
        << text;
  }
  for (
      const std::string& utf_7 :
      {"Gr+APYA3w-e, +ANw-bung, +AMQ-pfel, +ANY-l, s+APwA3w, F+AOQ-hre, fr+APw-h, sch+APY-n, H+APY-he, T+APw-r 1 +- 1\n"s,
       "+BB8EQAQ4BDIENQRC, +BDwEOARA. +BBoEMAQ6 +BDQENQQ7BDA?\n+BCUEPgRABD4ESAQ+, +BEEEPwQwBEEEOAQxBD4 +BDEEPgQ7BEwESAQ+BDU.\n"s,
       "+T2BZff8MThZ1TDACYhFO7FcoW2ZOYIvtigBqIVeLMAJRjYnBMAJmLzAC\n+TspZKVkpbBRfiFl9/wxO1k7sU7tOhlFsVu0wAg\n"s,
       "+/v8-words"s})
    EXPECT_TRUE(has(refused(utf_7, FileUse::text),
                    "found text in UTF-7, wanted text; convert it first: iconv -f UTF-7 -t UTF-8 "))
        << utf_7;
}

TEST_F(FileKinds, AreRefusedAsTextIfTheyAreQuotedPrintable) {
  for (
      const std::string& quoted :
      {"Gr=C3=B6=C3=9Fe, =C3=9Cbung, =C3=84pfel, =C3=96l, s=C3=BC=C3=9F, F=C3=A4hre=\n, fr=C3=BCh, sch=C3=B6n, H=C3=B6he, T=C3=BCr =3D 1 + 1, und so weiter bis z=\num Ende\n"s,
       "=E4=BD=A0=E5=A5=BD=EF=BC=8C=E4=B8=96=E7=95=8C=E3=80=82=E6=88=91=E4=BB=AC=E5=\n=9C=A8=E5=AD=A6=E4=B9=A0=E8=AF=AD=E8=A8=80=E6=A8=A1=E5=9E=8B=E3=80=82=E5=86=\n=8D=E8=A7=81=E3=80=82=E6=98=AF=E3=80=82\n"s})
    EXPECT_TRUE(
        has(refused(quoted, FileUse::text),
            "found text in quoted-printable, wanted text; convert it first: python3 -m quopri -d '" + at("a file")))
        << quoted;
  for (const std::string& text :
       {"a=90, b=85, c=99, d=88, e=91, f=95, g=84, h=83, i=82\n"s, "=C3=BC is how =C3 begins\n"s,
        "x = 1\ny == 2\n=C3=BC=C3=BC=C3=BC=C3=BC=C3=BC=C3=BC=C3=BC=C3=BC\n"s})
    take(text, FileUse::text);
}

/// The base64 of some ASCII, in one line.
std::string base64(const std::string& text) {
  constexpr const char* signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string found;
  for (size_t at = 0; at < text.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) bits = bits << 8 | (at + i < text.size() ? uint8_t(text[at + i]) : 0u);
    for (size_t i = 0; i < 4; ++i) found += at + i <= text.size() ? signs[bits >> (18 - 6 * i) & 63] : '=';
  }
  return found;
}

TEST_F(FileKinds, AreRefusedAsTextIfTheyAreBase64) {
  ASSERT_EQ(base64("ab"), "YWI=");
  ASSERT_EQ(base64("a"), "YQ==");
  std::string lines, all;
  for (int i = 0; i < 300; ++i) {
    const std::string line =
        "This is document " + std::to_string(i) + ", and it says " + std::to_string(i * 7919 % 1000);
    all += line + "\n";
    lines += base64(line) + "\r\n";
  }
  const std::string one = base64(all);
  std::string wrapped;
  for (size_t at = 0; at < one.size(); at += 76) wrapped += one.substr(at, 76) + "\n";
  std::string of_url = one;
  std::ranges::replace(of_url, '+', '-');
  std::ranges::replace(of_url, '/', '_');
  for (const std::string& text :
       {lines, one, wrapped, lines.substr(0, 700), of_url, "-----BEGIN DATA-----\n" + wrapped})
    EXPECT_TRUE(has(refused(text, FileUse::text), "found base64, wanted text; decode it first: base64 -d "))
        << text.substr(0, 80);
  std::string words;
  for (int i = 0; i < 600; ++i) words += std::string(i % 3 == 0 ? "Word" : "words") + (i % 5 == 0 ? "Abcd\n" : "abc\n");
  for (const std::string& text : {all, words, "Key: " + one, lines.substr(0, 200)}) take(text, FileUse::text);
}

std::string repeated(int times, const std::function<std::string(int)>& line) {
  std::string text;
  for (int i = 0; i < times; ++i) text += line(i);
  return text;
}

/// Ids as of a vocabulary of 50,257.
int id_of(int i) { return int(i * 7919LL % 50257 * (i % 3 == 0 ? 1 : i % 97) % 50257); }
std::string number_of(int i) { return std::to_string(id_of(i)); }

TEST_F(FileKinds, AreRefusedAsTextIfTheyAreListsOfNumbers) {
  for (const std::string& text :
       {repeated(400, [](int i) { return number_of(i) + "\n"; }),
        repeated(400, [](int i) { return number_of(i) + ","; }),
        repeated(400, [](int i) { return number_of(i) + "\r\n"; }),
        repeated(40,
                 [](int i) { return "[" + repeated(9, [&](int j) { return number_of(i * 9 + j) + ", "; }) + "7]\n"; }),
        repeated(40, [](int i) { return repeated(9, [&](int j) { return number_of(i * 9 + j) + " "; }) + "\n"; }),
        "\xef\xbb\xbf[[" + repeated(900, [](int i) { return number_of(i) + ","; }),
        "(" + repeated(400, [](int i) { return number_of(i) + "; "; }),
        "token ids\n" + repeated(400, [](int i) { return number_of(i) + "\n"; }),
        "tensor([" + repeated(400, [](int i) { return number_of(i) + ", "; })})
    for (const FileUse use : {FileUse::text, FileUse::json_lines, FileUse::tokens}) {
      const std::string told = refused(text, use, "ids.txt");
      EXPECT_TRUE(has(told, "found numbers only, such as token ids, wanted ") &&
                  has(told, "tofile(sys.stdout.buffer)\" < " + at("ids.txt") + " > " + at("ids.bin")) &&
                  has(told, "kind = \"tokens\", file = \"" + at("ids.bin") + "\" and dtype = \"uint32\"") &&
                  has(told, "data.encoding = \"bytes\"") == (use == FileUse::text))
          << told << " " << text.substr(0, 40);
    }
  EXPECT_TRUE(
      has(refused(repeated(300, [](int i) { return "[" + std::to_string(i * 0.37) + ", -1e-05]\n"; }), FileUse::text),
          "found numbers only, wanted text; name another file"));
}

TEST_F(FileKinds, OfTextMayBeOfDigits) {
  for (const std::string& text :
       {repeated(
            300,
            [](int i) { return std::to_string(i) + "+" + std::to_string(7 * i) + "=" + std::to_string(8 * i) + "\n"; }),
        repeated(
            300,
            [](int i) { return std::to_string(i) + "," + std::to_string(7 * i) + "=" + std::to_string(8 * i) + "\n"; }),
        repeated(300, [](int i) { return std::to_string(i % 10) + " " + std::to_string(i % 7) + "\n"; }),
        repeated(300, [](int i) { return printed("%d\t-%d: %d\n", i % 10, i % 20, i % 7); }),
        repeated(90, [](int i) { return printed("%05d %04d\n", i * 7, i); }),
        "3.14159265358979323846264338327950288419\n"s,
        repeated(90, [](int i) { return printed("%d1234567890123\n", i); }),
        repeated(90, [](int i) { return printed("%d. e4 e5 %d. Nf3 Nc6\n", i, i + 1); }),
        repeated(90, [](int i) { return printed("%d a line of a book\n", i); }),
        repeated(50, [](int i) { return printed("2024-01-%02d 12:00:00,123\n", i); })})
    take(text, FileUse::text);
}

TEST_F(FileKinds, AreRefusedAsTextIfTheyAreHexadecimalDigitsOrDumps) {
  const auto bytes = [](const char* format) {
    return [=](int i) { return printed(format, static_cast<unsigned long long>(i + 1) * 0x9e3779b97f4a7c15u); };
  };
  for (const std::string& text :
       {repeated(90, bytes("%016llx\n")), repeated(90, bytes("%016llx")), repeated(90, bytes("%016llX\r\n")),
        repeated(90, [](int i) { return printed("%02x ", i * 37 % 256); }) + repeated(200, bytes("%016llx ")),
        repeated(300, [](int i) { return printed("0x%02x, ", i * 37 % 256); })}) {
    const std::string told = refused(text, FileUse::text);
    EXPECT_TRUE(has(told, "found hexadecimal digits, wanted text; decode them first: xxd -r -p '" + at("a file")) &&
                has(told, "; to train on it as it is, set data.encoding = \"bytes\""))
        << told;
  }
  for (const std::string& text : {repeated(30, [](int i) { return printed("%08x: 6865 6c6c 6f20  hello\n", 16 * i); }),
                                  repeated(30, [](int i) { return printed("%08x  68 65 6c 6c  |hell|\n", 16 * i); }),
                                  repeated(30, [](int i) { return printed("%07o 062550 066154\n", 16 * i); })})
    EXPECT_TRUE(has(refused(text, FileUse::text), "found a dump of bytes, wanted text; decode it first")) << text;
  for (const std::string& text :
       {repeated(200, [](int) { return "deed face cafe "s; }),
        repeated(200, [](int i) { return i % 2 ? "e4e5 "s : "g1f3 "s; }),
        repeated(
            100,
            [](int i) { return printed("%07llx\n", static_cast<unsigned long long>(i) * 0x9e3779b97f4a7c15u >> 36); }),
        repeated(40, bytes("commit %016llx\n")), repeated(90, [](int i) { return printed("%06d a line\n", i); })})
    take(text, FileUse::text);
}

TEST_F(FileKinds, AreRefusedAsTextIfTheyAreTablesUnderAnotherName) {
  const auto rows = [](const std::string& header, const char* row) {
    return header + repeated(30, [=](int i) { return printed(row, i, i * 7 % 5); });
  };
  for (const std::string& table :
       {rows("text,label\n", "some words %d,%d\n"), rows("\xef\xbb\xbf\"id\",\"text\"\r\n", "\"%d\",\"a, b %d\"\r\n"),
        rows("name,said\n", "Ann %d,\"He said \"\"no\"\",\nand %d\"\n"), rows(",words,said\n", "%d,so many,words %d\n"),
        rows("name;size\n", "Ann %d;%d\n"), rows("url|name\n", "http://a/%d|word %d\n"), "text,label\na,1\nb,2"s,
        rows("", "%d,so many words,%d\n"), rows("", "\"so many\",\"words %d, %d\"\n"),
        rows("id,text\r", "%d,words %d\r"), rows("# made\nsep=;\nid;text\n", "%d;so many words %d\n"),
        rows("id,text\n", "%d,so many, or %d, words\n"),
        rows("text,label\n", "\"%d\",\"a\"\n") + "\"" + std::string(100'000, 'x')}) {
    const std::string told = refused(table, FileUse::text, "a.txt");
    EXPECT_TRUE(has(told, "found a table that begins with ") &&
                has(told, "wanted text; convert it first: cp " + at("a.txt") + " " + at("a.csv") +
                              " && wmtp-host data convert " + at("a.csv") + " --to " + at("a.jsonl") +
                              "; to train on it as it is, set data.encoding = \"bytes\""))
        << told << table.substr(0, 60);
  }
  EXPECT_TRUE(has(refused(rows("id\ttitle\n", "%d\tsome words, %d\n"), FileUse::text, "a.md"),
                  "cp " + at("a.md") + " " + at("a.tsv") + " && "));
  EXPECT_TRUE(has(refused(gzip(rows("a,text\n", "%d,w %d\n")), FileUse::text, "a.txt.gz"),
                  "found a table that begins with \"a,text\" inside, wanted text; unpack it first"));
}

TEST_F(FileKinds, OfTextMayContainSeparators) {
  for (const std::string& text :
       {"Tyger Tyger, burning bright,\nIn the forests, of the night,\nWhat immortal hand, or eye,\nCould frame, thy\n"s,
        repeated(30, [](int i) { return printed("word %d\tits meaning\n", i); }),
        repeated(30, [](int i) { return printed("3,1,%d=1,3,%d\n", i, i); }),
        repeated(30, [](int i) { return printed("a[%d] = 1; b[%d] = 2;\n", i, i); }),
        repeated(30, [](int i) { return printed("  \"text\",\n  \"label %d\",\n", i); }),
        "| text | label |\n| --- | --- |\n| a | 1 |\n| b | 2 |\n"s, "A text with a table:\n\ntext,label\na,1\nb,2\n"s,
        "text,label\na,1\nb,2\nand so on, as in other, larger tables\n"s, "import os, sys\nx, y = 1, 2\nz, w = 3, 4\n"s,
        "text,label\na,1\n"s, repeated(30, [](int i) { return printed("The cat,\tand dog %d\n", i); })})
    take(text, FileUse::text, "a.txt");
  take("text,label\na,1\nb,2\n", FileUse::table, "a.txt");
}

TEST_F(FileKinds, OfAsciiMayContainTildesAndPluses) {
  for (const std::string& text :
       {"(format t \"~{~a~^, ~}\" list) (format t \"~{<~a>~}~{(~a)~}\" list) (format t \"~{ab~}~{cdefghijkl~}\")"s,
        "~/notes ~{abcdef~} ~{ghijklmnop~} approximately ~5"s, "a ~~{ strange }~~ fence ~{~}\n"s,
        "Call +100-200 or +123-456, +789-012, +345-678, +901-234, +567-890, +111-222, +333-444\n"s,
        "C++17, C++20, g++ and 1+1=2\n+added\n-removed\n"s,
        "one+two, two+one, few+two, six+ten, fig+two, elm+two, fly+two, gin+two, oak+two\n"s,
        "aGVsbG8+d29ybGQ/IQ==\nfoo+AbCdEfGhIjKl/+mn\n"s})
    take(text, FileUse::text);
}

TEST_F(FileKinds, AreRefusedIfTheirNameSaysOtherwise) {
  EXPECT_TRUE(has(refused("words", FileUse::text, "a.parquet"), "found a name of Parquet, but other bytes"));
  EXPECT_TRUE(has(refused("words", FileUse::text, "a.npy"), "found a name of numpy"));
  EXPECT_TRUE(has(refused("\x01\x02\x03\x04", FileUse::text, "ids.bin"), "found a name of token ids"));
  EXPECT_TRUE(has(refused("\1\0\2\0"s, FileUse::tokens, "ids.npy"), "found a name of numpy, but other bytes"));
  EXPECT_TRUE(has(refused("\1\0\2\0"s, FileUse::tokens, "ids.jsonl"), "found text, wanted raw token ids"));
}

TEST_F(FileKinds, AreNoTokenIdsIfTheyAreText) {
  const std::string prose = "It was a bright cold day in April, and the clocks were striking thirteen.\n";
  EXPECT_TRUE(has(refused(prose, FileUse::tokens), "found text, wanted raw token ids"));
  take("\x1f\x8b\x09\x01", FileUse::tokens, "ids.bin");  // begins like gzip
  take("\xff\xff\xff\xff", FileUse::tokens, "ids.bin");  // begins like a stream of Arrow
  take(std::string(100, '\x20') + "\x01", FileUse::tokens, "ids.bin");
}

TEST_F(FileKinds, AreSeenInsidePackedText) {
  take(gzip("words"), FileUse::text);
  take(zstd(""), FileUse::text);
  for (const auto& [inside, name] :
       {std::pair<std::string, std::string>("PAR1 more", "a Parquet file inside"), {gzip("a"), "a gzip file inside"}}) {
    std::string text = refused(gzip(inside), FileUse::text, "a.txt");
    EXPECT_TRUE(has(text, "found " + name) && has(text, "unpack it first: gunzip -k < " + at("a.txt"))) << text;
    text = refused(zstd(inside), FileUse::text, "a.txt");
    EXPECT_TRUE(has(text, "found " + name)) << text;
  }
  const std::string archive = std::string(257, 'x') + "ustar and more";
  EXPECT_TRUE(has(refused(gzip(archive), FileUse::text), "found a tar archive inside, wanted text; unpack it first:"));
}

TEST_F(FileKinds, IncludeJsonListsWhichAreConvertedFirst) {
  const std::string list = "[{\"text\": \"a\"}]\n", convert = "found a JSON list, wanted text; convert it first:";
  EXPECT_TRUE(has(refused(list, FileUse::text), convert));
  EXPECT_TRUE(has(refused("\xef\xbb\xbf[\n  {\n    \"text\": \"a\"}]\n", FileUse::text), convert));
  EXPECT_TRUE(has(refused("[1, 2]", FileUse::text, "a.json"), convert));
  EXPECT_TRUE(has(refused("[1, 2]", FileUse::json_lines), "found a JSON list, wanted JSON lines"));
  EXPECT_TRUE(has(refused(list, FileUse::text, "b.jsonl"), " --to " + at("b.2.jsonl"))) << "no file that exists";
  write("c.jsonl", "");
  EXPECT_TRUE(has(refused(list, FileUse::text, "c.json"), " --to " + at("c.2.jsonl")));
  take("[1] Smith, J. (1999)\n", FileUse::text);
  take(list, FileUse::table);
}

TEST_F(FileKinds, AreJsonLinesByTheirNameOrTheirFirstKey) {
  const std::string line = "{\"text\": \"a\"}\n";
  for (const std::string& bytes :
       {line, "\xef\xbb\xbf" + line, gzip("\xef\xbb\xbf" + line), std::string(10000, '\n') + line, "  { \"a\": 1}"s,
        "# made by a program\n// and another\n" + line, "\xef\xbb\xbf\xef\xbb\xbf" + line, "\xc2\xa0" + line,
        "{\n  \"text\": \"a\"\n}\n"s, "{\r\n\t\"text\": \"a\"\r\n}\r\n"s, "\x1e" + line, "{\"text\": NaN}\n" + line,
        "{\"text\": \"a"s, "{}\n"s})
    EXPECT_TRUE(are_json_lines(bytes)) << bytes.substr(0, 40);
  for (const std::string name : {"a.jsonl", "a.ndjson", "a.json", "a.JSONL", "a.jsonl.gz", "a.json.zst"})
    EXPECT_TRUE(are_json_lines("words\n", name)) << name;
  for (const std::string& bytes : {""s, "\n\n"s, "words\n" + line, "{\n  int i;\n}\n"s, "{\n}\n"s, "{{ template }}"s,
                                   "# A title\n"s, "#"s + std::string(10000, 'x') + "\nwords\n"})
    EXPECT_FALSE(are_json_lines(bytes)) << bytes.substr(0, 40);
}

}  // namespace
}  // namespace wmtp
