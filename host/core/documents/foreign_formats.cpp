#include "core/documents/foreign_formats.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/files.hpp"
#include "core/documents/json_lines.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t longest_line = size_t{16} << 20;
constexpr size_t looked_at_bytes = 4096;
constexpr int lines_looked_at = 10;

const char* name_of(FileContent wanted) {
  return wanted == FileContent::text ? "text" : wanted == FileContent::json_lines ? "JSON lines" : "raw token ids";
}

/// The command that converts a table to text or JSON lines with pandas; `read`: the name of pandas' reader.
std::string table_command(const fs::path& file, const std::string& read, FileContent wanted) {
  const bool text = wanted != FileContent::json_lines;
  const std::string target = fs::path(file).replace_extension(text ? ".txt" : ".jsonl").string();
  return std::string(wanted == FileContent::tokens ? "set [data] kind = \"text\" and " : "") +
         "convert it first: python3 -c \"import sys, pandas; t = pandas." + read + "(sys.argv[1]); " +
         (text ? "open(sys.argv[2], 'w').write('\\n'.join(t['text']))"
               : "t.to_json(sys.argv[2], orient='records', lines=True)") +
         "\" " + file.string() + " " + target;
}

std::string numpy_command(const fs::path& file, FileContent wanted) {
  const std::string target = fs::path(file).replace_extension(".bin").string();
  return std::string(wanted == FileContent::tokens ? ""
                                                   : "if it contains token ids, set [data] kind = \"tokens\" and ") +
         "convert it first: python3 -c \"import sys, numpy; numpy.load(sys.argv[1]).astype('<u2').tofile(sys.argv[2])"
         "\" " +
         file.string() + " " + target + " ('<u4' with data.dtype = \"uint32\")";
}

bool begins_an_object(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

/// Token ids may begin with gzip's two magic bytes; the compression method after them has always been 8.
bool is_gzip(std::string_view start, FileContent wanted) {
  return start.starts_with(wanted == FileContent::tokens ? "\x1f\x8b\x08" : "\x1f\x8b");
}

}  // namespace

std::string start_of(const fs::path& file, size_t bytes) {
  check_is_file(file);
  std::ifstream in(file, std::ios::binary);
  std::string start(bytes, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(in.gcount()));
  if (!in.is_open() || in.bad()) throw Error(ExitStatus::data, file.string() + " cannot be read; check its rights");
  return start;
}

void refuse_foreign_format(const fs::path& file, FileContent wanted) {
  const std::string start = start_of(file, looked_at_bytes);
  const auto refuse = [&](const std::string& found, const std::string& what_to_do) {
    throw Error(ExitStatus::data,
                file.string() + ": found " + found + ", wanted " + name_of(wanted) + "; " + what_to_do);
  };
  if (is_gzip(start, wanted)) refuse("a gzip file", "unpack it first: gunzip -k " + file.string());
  if (start.starts_with("\x28\xb5\x2f\xfd")) refuse("a zstd file", "unpack it first: zstd -d " + file.string());
  if (start.starts_with("PAR1")) refuse("a Parquet file", table_command(file, "read_parquet", wanted));
  if (start.starts_with("ARROW1")) refuse("an Arrow file", table_command(file, "read_feather", wanted));
  if (start.starts_with("\x93NUMPY")) refuse("a numpy file", numpy_command(file, wanted));
}

void check_text_file(const fs::path& file) {
  refuse_foreign_format(file, FileContent::text);
  if (!begins_an_object(start_of(file, looked_at_bytes))) return;
  int objects = 0;
  bool all = true;
  for_each_line(file, longest_line, [&](int64_t, std::string_view line, size_t bytes) {
    if (bytes <= longest_line && is_blank(line)) return true;
    all = begins_an_object(line) && nlohmann::json::accept(line.begin(), line.end());
    objects += all;
    return all && objects < lines_looked_at;
  });
  if (!all || objects == 0) return;
  throw Error(
      ExitStatus::data,
      file.string() + ": found JSON lines (" +
          (objects == 1 ? "an object on its only line" : "an object on each of its first lines") +
          "), wanted text; set [data] kind = \"records\" if they have instruction and output, write their texts "
          "to another file (jq -r .text " +
          file.string() + "), or exclude the file with data.exclude");
}

}  // namespace wmtp
