#include "io/file_kind.hpp"

#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "io/data_as_text.hpp"
#include "io/decompressed_file.hpp"
#include "io/seven_bit_text.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

constexpr size_t looked_at_bytes = 4096;
constexpr size_t shortest_text_for_certain = 64;  ///< fewer token ids may be letters by chance

/// What to do with a file; `{}` stands for its name.
constexpr std::string_view by_convert = "convert", by_numpy = "numpy", by_exclusion = "exclude";

struct Signature {
  size_t at;
  std::string_view bytes, name, advice;
};

// Shorter signatures would be found in token ids, too.
constexpr std::array signatures{
    Signature{0, "PAR1"sv, "a Parquet file", by_convert},
    Signature{0, "ARROW1"sv, "an Arrow file", by_convert},
    Signature{0, "\xff\xff\xff\xff"sv, "an Arrow file", by_convert},
    Signature{0, "\x93NUMPY"sv, "a numpy file", by_numpy},
    Signature{257, "ustar"sv, "a tar archive", "unpack it first: tar -xf {}"},
    Signature{0, "PK\3\4"sv, "a zip archive", "unpack it first: unzip {}"},
    Signature{0, "PK\5\6"sv, "a zip archive", "unpack it first: unzip {}"},
    Signature{0,
              "\xfd"
              "7zXZ\0"sv,
              "an xz file", "unpack it first: xz -dk {}"},
    Signature{4, "1AY&SY"sv, "a bzip2 file", "unpack it first: bunzip2 -k {}"},
    Signature{0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "unpack it first: 7z x {}"},
    Signature{0, "\x04\x22\x4d\x18"sv, "an lz4 file", "unpack it first: lz4 -dk {}"},
    Signature{0, "LZIP"sv, "an lzip file", "unpack it first: lzip -dk {}"},
    Signature{0, "Rar!\x1a\x07"sv, "a rar archive", "unpack it first: unrar x {}"},
    Signature{0, "\xff\x06\0\0sNaPpY"sv, "a snappy file", "unpack it first: snzip -dk {}"},
    Signature{0, "%PDF-"sv, "a PDF document", "convert it first: pdftotext {}"},
    Signature{0, "{\\rtf"sv, "an RTF document", "convert it first: unrtf --text {}"},
    Signature{0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an Office document", by_exclusion},
    Signature{0, "\x89PNG\r\n\x1a\n"sv, "a PNG image", by_exclusion},
    Signature{0, "\xff\xd8\xff\xe0"sv, "a JPEG image", by_exclusion},
    Signature{0, "\xff\xd8\xff\xe1"sv, "a JPEG image", by_exclusion},
    Signature{0, "\xff\xd8\xff\xdb"sv, "a JPEG image", by_exclusion},
    Signature{0, "GIF8"sv, "a GIF image", by_exclusion},
    Signature{8, "WEBPVP8"sv, "a WebP image", by_exclusion},
    Signature{8, "WAVEfmt "sv, "a WAV file of sound", by_exclusion},
    Signature{0, "fLaC\0\0\0"sv, "a FLAC file of sound", by_exclusion},
    Signature{0, "OggS\0\2"sv, "an Ogg file of sound", by_exclusion},
    Signature{0, "ID3\3\0"sv, "an MP3 file of sound", by_exclusion},
    Signature{0, "ID3\4\0"sv, "an MP3 file of sound", by_exclusion},
    Signature{0, "SQLite format 3\0"sv, "an SQLite database", by_exclusion},
    Signature{0,
              "\x7f"
              "ELF"sv,
              "a program", by_exclusion},
    Signature{0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file", by_exclusion},
    Signature{0, "GGUF"sv, "a GGUF file", by_exclusion},
    Signature{0, "Obj\1"sv, "an Avro file", by_exclusion},
    Signature{0, "MMIDIDX\0"sv, "an index of token ids by Megatron", by_exclusion},
    Signature{0, "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."sv, "a pickle of PyTorch", by_exclusion},
    Signature{0, "\xc6\xd7\x34\x01\x03\0\0\0"sv, "a model of llm.c", by_exclusion},
    Signature{0, "\xc6\xd7\x34\x01\x05\0\0\0"sv, "a model of llm.c", by_exclusion},
    Signature{0, "\x8a\xd8\x34\x01\x01\0\0\0"sv, "an evaluation of llm.c", by_exclusion},
    Signature{0, "\xff\xfe\0\0"sv, "text in UTF-32", "convert it first: iconv -f UTF-32 -t UTF-8 {}"},
    Signature{0, "\0\0\xfe\xff"sv, "text in UTF-32", "convert it first: iconv -f UTF-32 -t UTF-8 {}"},
};

// Two bytes are enough where text is wanted: no UTF-8 begins so. Longer ones are text, of what is no text to train on.
constexpr std::array signatures_in_text{
    Signature{0, "\xff\xfe"sv, "text in UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 {}"},
    Signature{0, "\xfe\xff"sv, "text in UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 {}"},
    Signature{0, "\x80\x02"sv, "a pickle", by_exclusion},
    Signature{0, "\x80\x03"sv, "a pickle", by_exclusion},
    Signature{0, "\x80\x04"sv, "a pickle", by_exclusion},
    Signature{0, "\x80\x05"sv, "a pickle", by_exclusion},
    Signature{0, "\x1f\x9d"sv, "a file of compress", "unpack it first: gunzip -k {}"},
    Signature{0, "WARC/1."sv, "a WARC file of web pages", "extract the texts of its records first, as JSON lines"},
    Signature{0, "!<arch>\n"sv, "an ar archive", "unpack it first: ar x {}"},
    Signature{0, "070701"sv, "a cpio archive", "unpack it first: cpio -id < {}"},
    Signature{0, "%!PS-Adobe-"sv, "a PostScript document", "convert it first: ps2ascii {}"},
};

struct NameOfKind {
  std::string_view extension, name;
};

// Tables that only their names tell: each line could be text as well.
constexpr std::array table_extensions{".csv", ".tsv"};

// Zip archives in which there are no files of text.
constexpr std::array office_extensions{".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub"};

// Names of what is neither text nor raw token ids, for files whose bytes show no kind.
constexpr std::array named_kinds{NameOfKind{".parquet", "a name of Parquet"}, NameOfKind{".arrow", "a name of Arrow"},
                                 NameOfKind{".npy", "a name of numpy"}, NameOfKind{".npz", "a name of numpy"}};
constexpr std::array token_file_extensions{".bin", ".idx"};
constexpr std::array json_lines_extensions{".jsonl", ".ndjson", ".json"};
constexpr std::array text_extensions{".jsonl", ".ndjson", ".json", ".txt", ".md", ".csv", ".tsv", ".html", ".xml"};

/// The name's last extension in lower case; of packed files the one before it.
std::string extension_of(const fs::path& file, bool is_packed) {
  fs::path name = file.filename();
  if (is_packed && (name.extension() == ".gz" || name.extension() == ".zst")) name = name.stem();
  std::string extension = name.extension().string();
  for (char& c : extension) c = char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return extension;
}

template <class Names>
bool is_one_of(const std::string& extension, const Names& names) {
  return std::find(names.begin(), names.end(), extension) != names.end();
}

/// Token ids may begin with gzip's two magic bytes; the compression method after them has always been 8.
Compression packing_found(std::string_view start, FileUse use) {
  const Compression packing = detect_compression(start);
  const bool is_short = use == FileUse::tokens && packing == Compression::gzip && !start.starts_with("\x1f\x8b\x08");
  return is_short ? Compression::none : packing;
}

std::string unpacking(Compression packing, const fs::path& file) {
  return std::string("unpack it first: ") + (packing == Compression::gzip ? "gunzip -k " : "zstd -d ") +
         compressed_file_argument(file, packing);
}

bool is_at(std::string_view start, const Signature& one) {
  return start.size() >= one.at && start.substr(one.at).starts_with(one.bytes);
}

/// The 8 bytes of a length below 2^40, and the beginning of a JSON object.
bool begins_as_safetensors(std::string_view start) { return start.size() > 9 && start.substr(5, 5) == "\0\0\0{\""sv; }

/// The encoding of text in which NUL is a part of most characters, as in European languages; "" for other bytes.
std::string wide_encoding(std::string_view start) {
  size_t even = 0, odd = 0;  // NUL bytes at these offsets
  for (size_t i = 0; i < start.size(); ++i) (i % 2 == 0 ? even : odd) += start[i] == '\0' ? 1 : 0;
  const size_t half = start.size() / 2;
  const auto are_most = [&](size_t count) { return half > 0 && count * 10 >= half * 4; };
  if (even + odd == start.size() || (!are_most(even) && !are_most(odd))) return "";
  if (are_most(even) && are_most(odd)) return odd > even ? "UTF-32LE" : "UTF-32BE";
  return odd > even ? "UTF-16LE" : "UTF-16BE";
}

/// Whether they are characters of UTF-16 whose low bytes are at even (0) or odd (1) offsets.
bool can_be_utf_16(std::string_view start, size_t low) {
  for (size_t i = 0; i + 1 < start.size(); i += 2) {
    const auto unit = [&](size_t at) {
      return at + 1 < start.size() ? uint8_t(start[at + 1 - low]) << 8 | uint8_t(start[at + low]) : 0xdc00;
    };
    const int code = unit(i);
    const bool is_control =
        (code < 0x20 && code != '\t' && code != '\n' && code != '\r') || (code > 0x7e && code < 0xa0);
    if (is_control || (code >= 0xdc00 && code < 0xe000)) return false;
    if (code < 0xd800 || code >= 0xdc00) continue;
    if (unit(i += 2) < 0xdc00 || unit(i) >= 0xe000) return false;
  }
  return true;
}

/// UTF-16 of other languages: NUL is a part of spaces and newlines only, or the low byte of some characters. "" if the
/// bytes cannot be that.
std::string possible_encoding(std::string_view start) {
  constexpr size_t shortest_for_low_bytes = 64;
  size_t even = 0, odd = 0;
  for (size_t i = 0; i < start.size(); ++i) (i % 2 == 0 ? even : odd) += start[i] == '\0' ? 1 : 0;
  if (even > 0 && odd > 0) return "";
  size_t low = odd > 0 ? 0 : 1;  // of a character's two bytes
  if (!can_be_utf_16(start, low)) {
    low = 1 - low;
    if (start.size() < shortest_for_low_bytes || !can_be_utf_16(start, low)) return "";
  }
  return low == 0 ? "UTF-16LE" : "UTF-16BE";
}

/// Whether these bytes can only be text.
bool is_certainly_text(std::string_view start) {
  const size_t complete = complete_utf8_length(start);
  const bool is_printed = std::all_of(start.begin(), start.end(), [](char c) {
    return uint8_t(c) >= 0x20 ? c != 0x7f : c == '\t' || c == '\n' || c == '\r';
  });
  return start.size() >= shortest_text_for_certain && is_printed &&
         valid_utf8_prefix(start.substr(0, complete)) == complete;
}

/// The length of the white space and the byte order marks with which a text begins.
size_t blank_before(std::string_view text) {
  size_t done = 0;
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view blank :
         {" "sv, "\t"sv, "\r"sv, "\n"sv, "\v"sv, "\f"sv, "\x1e"sv, "\xc2\xa0"sv, "\xef\xbb\xbf"sv}) {
      for (; text.substr(done).starts_with(blank); found = true) done += blank.size();
    }
  }
  return done;
}

/// The first bytes of the first line that is neither blank nor a comment; "" if there is none.
std::string first_content(const fs::path& file) {
  DecompressedFile in(file);
  std::string text(looked_at_bytes, '\0');
  text.resize(in.read(text.data(), text.size()));
  bool ended = text.size() < looked_at_bytes;
  for (;;) {
    text.erase(0, blank_before(text));
    const bool is_comment = text.starts_with('#') || text.starts_with("//");
    const size_t newline = is_comment ? text.find('\n') : std::string::npos;
    const bool is_open = text.empty() || (is_comment && newline == std::string::npos);
    if (!is_open && !is_comment && (ended || text.size() >= looked_at_bytes / 2)) return text;
    if (is_comment && newline != std::string::npos) {
      text.erase(0, newline);
    } else if (ended) {
      return is_comment ? "" : text;
    } else {
      if (is_open && is_comment) text.resize(2);  // the rest of a long comment follows
      const size_t kept = text.size();
      text.resize(kept + looked_at_bytes);
      text.resize(kept + in.read(text.data() + kept, looked_at_bytes));
      ended = text.size() < kept + looked_at_bytes;
    }
  }
}

std::string if_token_ids(const fs::path& file) {
  return "if it contains token ids, set [data] kind = \"tokens\" and file = \"" + file.string() + "\"";
}

class KindCheck {
 public:
  KindCheck(const fs::path& file, FileUse use)
      : file_(file), use_(use), start_(read_file_start(file, looked_at_bytes)), outer_(packing_found(start_, use)) {}

  void refuse_piece(std::string_view piece) {
    is_inside_ = outer_ != Compression::none;
    refuse_seven_bit(piece);
  }

  void run() {
    refuse_pointer(file_, start_);
    const bool may_be_packed = use_ == FileUse::text || use_ == FileUse::json_lines;
    if (outer_ != Compression::none && may_be_packed) {
      start_.resize(looked_at_bytes);
      start_.resize(DecompressedFile(file_).read(start_.data(), start_.size()));
      is_inside_ = true;
      refuse_pointer(file_, start_);
    }
    const Compression packing = packing_found(start_, use_);
    if (packing == Compression::gzip) refuse("a gzip file", unpacking(packing, file_));
    if (packing == Compression::zstd) refuse("a zstd file", unpacking(packing, file_));
    if (start_.starts_with("PK\3\4") && is_one_of(extension_of(file_, false), office_extensions))
      refuse("an Office document or an e-book", "save it as text first, a spreadsheet as CSV");
    for (const Signature& one : signatures)
      if (is_at(start_, one) && !is_wanted(one)) refuse(one);
    if (use_ == FileUse::tokens)
      check_ids();
    else if (may_be_packed)
      check_text();
  }

 private:
  bool is_wanted(const Signature& one) const {
    if (use_ == FileUse::table) return one.advice == by_convert;
    // Token ids are numpy files, and may begin with four bytes of ones.
    return use_ == FileUse::tokens && (one.advice == by_numpy || one.bytes == "\xff\xff\xff\xff"sv ||
                                       one.bytes.starts_with("MMIDIDX"));  // which token_id_layout explains
  }

  void check_ids() const {
    const std::string extension = extension_of(file_, false);
    if (begins_as_safetensors(start_)) refuse("a safetensors file", "name a file of token ids");
    if (!start_.starts_with("\x93NUMPY")) refuse_name(extension);
    if (is_certainly_text(start_)) refuse_numbers();
    if (is_one_of(extension, text_extensions) || is_certainly_text(start_))
      refuse("text", "set [data] kind = \"text\" or \"records\", and files instead of file");
  }

  void check_text() const {
    for (const Signature& one : signatures_in_text)
      if (is_at(start_, one)) refuse(one);
    if (begins_as_safetensors(start_)) refuse("a safetensors file", advice_of(by_exclusion));
    if (const std::string wide = wide_encoding(start_); !wide.empty())
      refuse("text in " + wide, advice_of("convert it first: " + recoding(wide)));
    if (const size_t at = start_.find('\0'); at != std::string::npos) {
      const std::string other = is_inside_ ? "" : possible_encoding(start_);
      refuse("a NUL byte at byte " + std::to_string(at),
             (other.empty() ? "" : "if it is text in " + other + ", convert it first: " + recoding(other) + "; else ") +
                 advice_of(by_exclusion));
    }
    refuse_seven_bit(start_);
    refuse_data();
    const std::string extension = extension_of(file_, is_inside_);
    if (is_list(extension)) refuse("a JSON list", advice_of(by_convert));
    if (is_one_of(extension, table_extensions))
      refuse("a name of CSV",
             advice_of(by_convert) + (use_ == FileUse::text ? "; if it is plain text, rename it, or exclude it with "
                                                              "data.exclude"
                                                            : ""));
    refuse_name(extension);
    if (is_one_of(extension, token_file_extensions) && !is_certainly_text(start_))
      refuse("a name of token ids",
             "if it contains them, set [data] kind = \"tokens\" and file; if it is text, rename it");
  }

  /// Refuses what is written as text, but is none.
  void refuse_data() const {
    if (is_base64(start_)) refuse("base64", advice_of("decode it first: " + base64_decoding()) + as_it_is());
    if (is_uuencoded(start_)) refuse("a uuencoded file", advice_of("decode it first: uudecode {}") + as_it_is());
    if (is_dump(start_))
      refuse("a dump of bytes", advice_of("decode it first, if it is of xxd: xxd -r {}") + as_it_is());
    if (is_hexadecimal(start_))
      refuse("hexadecimal digits", advice_of("decode them first: xxd -r -p {}, if they are of text") + as_it_is());
    refuse_table();
    refuse_numbers();
  }

  void refuse_table() const {
    std::string start(bytes_for_table, '\0');
    start.resize(DecompressedFile(file_).read(start.data(), start.size()));
    const char separator = table_separator(start, start.size() == bytes_for_table);
    if (separator == '\0' || is_one_of(extension_of(file_, is_inside_), table_extensions)) return;
    const std::string table = new_name(separator == '\t' ? ".tsv" : ".csv").string();
    refuse("a table that begins with " + printable(first_line(start)),
           advice_of("convert it first: cp {} " + shell_path(table) + " && wmtp-host data convert " +
                     shell_path(table) + " --to " + shell_path(new_name(".jsonl").string())) +
               as_it_is());
  }

  void refuse_numbers() const {
    const NumbersFound found = find_number_list(start_);
    if (!found.are_numbers) return;
    if (!found.are_ids) refuse("numbers only", "name another file" + as_it_is());
    const std::string ids = new_name(".bin").string();
    refuse("numbers only, such as token ids",
           "if they are ids, " +
               advice_of("convert them: python3 -c \"import array, re, sys; array.array('I', map(int, "
                         "re.findall('[0-9]+', sys.stdin.read()))).tofile(sys.stdout.buffer)\" < {} > " +
                         shell_path(ids) + ", and set [data] kind = \"tokens\", file = \"" + ids +
                         "\" and dtype = \"uint32\"") +
               as_it_is());
  }

  std::string as_it_is() const {
    return use_ == FileUse::text ? "; to train on it as it is, set data.encoding = \"bytes\"" : "";
  }

  static std::string_view first_line(std::string_view text) {
    text.remove_prefix(blank_before(text));
    return text.substr(0, text.find_first_of("\r\n"));
  }

  void refuse_seven_bit(std::string_view text) const {
    if (const std::string encoding = seven_bit_encoding(text); !encoding.empty())
      refuse("text in " + encoding, advice_of("convert it first: " + recoding(encoding)));
  }

  std::string recoding(const std::string& encoding) const {
    if (encoding == "HZ")  // which the iconv of glibc does not know
      return "python3 -c \"import sys; sys.stdout.buffer.write(sys.stdin.buffer.read().decode('hz').encode())\" < " +
             shell_path(file_.string());
    if (encoding == "quoted-printable") return "python3 -m quopri -d " + shell_path(file_.string());
    return "iconv -f " + encoding + " -t UTF-8 " + shell_path(file_.string());
  }

  std::string base64_decoding() const {
    const std::string file = shell_path(file_.string());
    return "base64 -d " + file + ", or of one text in each line: while read -r line; do echo \"$line\" | base64 -d; " +
           "echo; done < " + file;
  }

  /// Text may begin with a bracket, unless an object follows it.
  bool is_list(const std::string& extension) const {
    const std::string text = first_content(file_);
    if (!text.starts_with('[')) return false;
    if (use_ == FileUse::json_lines || is_one_of(extension, json_lines_extensions)) return true;
    const size_t object = text.find_first_not_of(" \t\r\n", 1);
    const size_t key =
        object < text.size() && text[object] == '{' ? text.find_first_not_of(" \t\r\n", object + 1) : text.npos;
    return key < text.size() && text[key] == '"';
  }

  /// Refuses a name of a kind whose first bytes the file lacks.
  void refuse_name(const std::string& extension) const {
    for (const NameOfKind& one : named_kinds)
      if (extension == one.extension)
        refuse(std::string(one.name) + ", but other bytes", "replace the file by a good copy, or rename it");
  }

  /// Of a file that does not exist.
  fs::path new_name(const std::string& extension) const {
    fs::path name = fs::path(file_).replace_extension(extension);
    for (int i = 2; is_there(name); ++i) name = fs::path(file_).replace_extension("." + std::to_string(i) + extension);
    return name;
  }

  std::string advice_of(std::string_view of_kind) const {
    std::string advice(of_kind);
    if (is_inside_ && advice != by_exclusion) return unpacking(outer_, file_);
    if (advice == by_convert)
      return std::string(use_ == FileUse::tokens ? "set [data] kind = \"text\" or \"records\", and " : "") +
             "convert it first: wmtp-host data convert " + shell_path(file_.string()) + " --to " +
             shell_path(new_name(".jsonl").string());
    if (advice == by_numpy) return if_token_ids(file_);
    if (advice == by_exclusion)
      return use_ == FileUse::text
                 ? "exclude it with data.exclude, or set data.encoding = \"bytes\" to train on its bytes"
                 : "name another file";
    if (const size_t at = advice.find("{}"); at != std::string::npos) advice.replace(at, 2, shell_path(file_.string()));
    return advice;
  }

  [[noreturn]] void refuse(const Signature& one) const { refuse(std::string(one.name), advice_of(one.advice)); }

  [[noreturn]] void refuse(const std::string& found, const std::string& what_to_do) const {
    throw Error(ExitStatus::data, file_.string() + ": found " + found + (is_inside_ ? " inside" : "") + ", wanted " +
                                      to_string(use_) + "; " + what_to_do +
                                      (use_ == FileUse::text ? advice_for_token_ids(file_) : ""));
  }

  const fs::path& file_;
  FileUse use_;
  std::string start_;
  Compression outer_;
  bool is_inside_ = false;  ///< start_ is of the unpacked text
};

}  // namespace

std::string read_file_start(const fs::path& file, size_t bytes) {
  check_is_file(file);
  std::ifstream in(file, std::ios::binary);
  std::string start(bytes, '\0');
  in.read(start.data(), std::streamsize(start.size()));
  start.resize(size_t(in.gcount()));
  if (!in.is_open() || in.bad()) throw Error(ExitStatus::data, file.string() + " cannot be read; check its rights");
  return start;
}

std::string advice_for_token_ids(const fs::path& file) {
  return file.extension() == ".bin" ? "; " + if_token_ids(file) : "";
}

void check_file_kind(const fs::path& file, FileUse use) { KindCheck(file, use).run(); }

void refuse_seven_bit(const fs::path& file, std::string_view piece) {
  const bool is_ascii = std::ranges::all_of(piece, [](char c) { return uint8_t(c) < 0x80; });
  if (is_ascii && !seven_bit_encoding(piece).empty()) KindCheck(file, FileUse::text).refuse_piece(piece);
}

bool has_json_lines(const fs::path& file) {
  const std::string extension = extension_of(file, /*is_packed=*/true);
  if (is_one_of(extension, json_lines_extensions)) return true;
  const std::string text = first_content(file);
  if (!text.starts_with('{')) return false;
  const size_t next = text.find_first_not_of(" \t", 1), key = text.find_first_not_of(" \t\r\n", 1);
  return (next != std::string::npos && text[next] == '}') || (key != std::string::npos && text[key] == '"');
}

void refuse_pointer(const fs::path& file, std::string_view start) {
  const std::string_view text = start.substr(blank_before(start)), line = text.substr(0, text.find('\n'));
  const bool is_annex_link =  // where a file system has no links
      line.find(".git/annex/objects/") != line.npos && (line.starts_with("../") || line.starts_with(".git/"));
  const auto refuse = [&](const std::string& program, const std::string& command) {
    throw Error(ExitStatus::data, file.string() + " is a pointer of " + program +
                                      ", in place of the file; download the file: " + command);
  };
  if (text.starts_with("version https://git-lfs.github.com/spec/") ||
      text.starts_with("version https://hawser.github.com/spec/"))
    refuse("Git LFS", "git lfs pull");
  if (text.starts_with("/annex/objects/") || is_annex_link)
    refuse("git-annex", "git annex get " + shell_path(file.string()));
  if (text.starts_with("# xet version ")) refuse("Xet", "git xet pull");
}

}  // namespace wmtp
