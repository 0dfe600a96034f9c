#include "data/text/text_check.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "data/text/json_lines.hpp"
#include "io/decompressed_file.hpp"
#include "io/file_kind.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t piece_bytes = 1 << 20;
constexpr int64_t one_invalid_in = 1000;

void check_has_text(const fs::path& file) {
  LineStream lines(file, max_jsonl_line_bytes);
  while (lines.next() && is_blank(lines.line())) {
  }
  const auto first = parse_object(lines.line(), [](const std::string&) { return true; });
  const auto* object = std::get_if<Json>(&first);
  if (!object || object->contains("text")) return;  // a mistake is reported with its line when the file is read
  std::vector<std::string> fields;
  for (const auto& [name, value] : object->items()) fields.push_back(name);
  throw Error(
      ExitStatus::data,
      file.string() + ": found JSON lines with " + (fields.empty() ? "no fields" : "the fields " + join_names(fields)) +
          ", wanted text, or JSON lines with a text each; set [data] kind = \"records\" for instructions, chats, "
          "completions or preferences, rename a field in another file (jq -c '{text: .content}' " +
          shell_path(file.string()) + "), or exclude the file with data.exclude");
}

constexpr const char* or_bytes =
    "exclude it with data.exclude, or set data.encoding = \"bytes\" to train on its bytes as they are";

}  // namespace

bool check_text_kind(const fs::path& file) {
  check_file_kind(file, FileUse::text);
  const bool is_json_lines = has_json_lines(file);
  if (is_json_lines) check_has_text(file);
  return is_json_lines;
}

int64_t InvalidUtf8Counter::count(const fs::path& file) {
  if (check_text_kind(file)) {
    add_valid(int64_t(fs::file_size(file)));
    return 0;
  }
  DecompressedFile in(file);
  std::string bytes;
  int64_t offset = 0, invalid = 0;  // of the file's text
  for (bool ended = false; !ended;) {
    const size_t kept = bytes.size();
    bytes.resize(kept + piece_bytes);
    const size_t got = in.read(bytes.data() + kept, piece_bytes);
    bytes.resize(kept + got);
    ended = got < piece_bytes;
    if (const size_t nul = bytes.find('\0'); nul != std::string::npos)
      throw Error(ExitStatus::data, file.string() + ": found a NUL byte at byte " +
                                        with_thousands(offset + int64_t(nul)) + ", wanted text; " + or_bytes +
                                        advice_for_token_ids(file));
    refuse_seven_bit(file, bytes);
    std::string_view rest(bytes.data(), ended ? bytes.size() : complete_utf8_length(bytes));
    const size_t done = rest.size();
    for (rest.remove_prefix(valid_utf8_prefix(rest)); !rest.empty(); rest.remove_prefix(valid_utf8_prefix(rest))) {
      if (invalid_ + invalid++ == 0) first_ = offset + int64_t(done - rest.size());
      rest.remove_prefix(1);
    }
    offset += int64_t(done);
    bytes.erase(0, done);
  }
  if (invalid_ == 0 && invalid > 0) first_file_ = file;
  bytes_ += offset;
  invalid_ += invalid;
  files_ += invalid > 0 ? 1 : 0;
  return invalid;
}

void InvalidUtf8Counter::refuse_too_many() const {
  if (invalid_ * one_invalid_in <= bytes_) return;
  throw Error(ExitStatus::data,
              first_file_.string() + ": found " + counted(invalid_, "byte") +
                  " in no character of UTF-8, the first at byte " + with_thousands(first_) +
                  (files_ > 1 ? ", others in " + counted(files_ - 1, "more file") : "") +
                  ", wanted at most one in a thousand; convert it first (iconv -f ENCODING -t UTF-8 " +
                  shell_path(first_file_.string()) + ", with its encoding, such as LATIN1, GB18030 or SHIFT-JIS), " +
                  or_bytes + advice_for_token_ids(first_file_));
}

void check_text_files(const std::vector<fs::path>& files) {
  InvalidUtf8Counter invalid;
  for (const fs::path& file : files) invalid.count(file);
  invalid.refuse_too_many();
}

}  // namespace wmtp
