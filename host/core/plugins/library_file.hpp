// A plugin's file, judged before anything of it is mapped or run: every read is checked against the file's size, so
// that text, a cut file and a library of another machine each get their own message and none can crash the reader. All
// functions throw Error(plugin) whose text begins with the file's path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// What tells one state of a file from another.
struct FileStamp {
  std::filesystem::path path;  ///< absolute
  int64_t size = 0;
  int64_t modified_ns = 0;
};

/// A regular file, no symbolic link, not writable by everyone.
FileStamp check_library_file(const std::filesystem::path& file);

/// Reads the ELF headers: class, byte order, machine, type, and whether section table, sections and segments lie inside
/// the file. Returns the names of the symbols that the library exports.
std::vector<std::string> exported_symbols(const std::filesystem::path& file);

}  // namespace wmtp
