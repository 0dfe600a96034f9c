#include "core/documents/foreign_formats.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "core/documents/json_lines.hpp"
#include "io/unpacked_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t looked_at_bytes = 4096;

const char* name_of(FileContent wanted) {
  return wanted == FileContent::text ? "text" : wanted == FileContent::json_lines ? "JSON lines" : "raw token ids";
}

std::string table_command(const fs::path& file, FileContent wanted) {
  return std::string(wanted == FileContent::tokens ? "set [data] kind = \"text\" or \"records\", and " : "") +
         "convert it first: wmtp-host data convert " + file.string() + " --to " +
         fs::path(file).replace_extension(".jsonl").string();
}

/// Token ids may begin with gzip's two magic bytes; the compression method after them has always been 8.
Packing packing_found(std::string_view start, FileContent wanted) {
  const Packing packing = packing_of(start);
  const bool is_short = wanted == FileContent::tokens && packing == Packing::gzip && !start.starts_with("\x1f\x8b\x08");
  return is_short ? Packing::none : packing;
}

std::string unpacking(Packing packing, const fs::path& file) {
  return std::string("unpack it first: ") + (packing == Packing::gzip ? "gunzip -k " : "zstd -d ") + file.string();
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
  std::string start = start_of(file, looked_at_bytes);
  const auto refuse = [&](const std::string& found, const std::string& what_to_do) {
    throw Error(ExitStatus::data,
                file.string() + ": found " + found + ", wanted " + name_of(wanted) + "; " + what_to_do);
  };
  const Packing outer = packing_found(start, wanted);
  const bool is_packed = outer != Packing::none;
  const bool may_be_packed = wanted != FileContent::tokens;
  if (is_packed && may_be_packed) {
    start.resize(looked_at_bytes);
    start.resize(UnpackedFile(file).read(start.data(), start.size()));
  }
  const std::string inside = is_packed && may_be_packed ? " inside" : "";
  const auto command = [&](const std::string& of_this_format) {
    return is_packed ? unpacking(outer, file) : of_this_format;
  };
  const Packing packing = packing_found(start, wanted);
  if (packing == Packing::gzip) refuse("a gzip file" + inside, unpacking(packing, file));
  if (packing == Packing::zstd) refuse("a zstd file" + inside, unpacking(packing, file));
  if (start.size() > 262 && start.substr(257, 5) == "ustar")
    refuse("a tar archive", "unpack it first: tar -xf " + file.string());
  if (start.starts_with("PAR1")) refuse("a Parquet file" + inside, command(table_command(file, wanted)));
  const bool is_stream = start.starts_with("\xff\xff\xff\xff") && wanted != FileContent::tokens;
  if (start.starts_with("ARROW1") || is_stream) refuse("an Arrow file" + inside, command(table_command(file, wanted)));
  if (start.starts_with("\x93NUMPY") && wanted != FileContent::tokens)
    refuse("a numpy file" + inside,
           command("if it contains token ids, set [data] kind = \"tokens\" and file = \"" + file.string() + "\""));
}

void check_text_file(const fs::path& file) {
  refuse_foreign_format(file, FileContent::text);
  if (!has_json_lines(file)) return;
  LineStream lines(file, longest_jsonl_line);
  while (lines.next() && is_blank(lines.line())) {
  }
  const auto first = parse_object(lines.line(), [](const std::string&) { return true; });
  const auto* object = std::get_if<nlohmann::json>(&first);
  if (!object || object->contains("text")) return;  // a mistake is reported with its line when the file is read
  std::vector<std::string> fields;
  for (const auto& [name, value] : object->items()) fields.push_back(name);
  throw Error(
      ExitStatus::data,
      file.string() + ": found JSON lines with " + (fields.empty() ? "no fields" : "the fields " + join_names(fields)) +
          ", wanted text, or JSON lines with a text each; set [data] kind = \"records\" for instructions, chats, "
          "completions or preferences, rename a field in another file (jq -c '{text: .content}' " +
          file.string() + "), or exclude the file with data.exclude");
}

}  // namespace wmtp
