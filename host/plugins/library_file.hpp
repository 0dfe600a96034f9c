// Checks a plugin's library file before it is mapped or run. Every read is checked against the file's size, so that
// text, a truncated file and a library for another machine get specific messages and cannot crash the reader. All
// functions throw Error(plugin) whose text begins with the file's path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// Identifies a version of a file.
struct FileStamp {
  std::filesystem::path path;  ///< absolute
  int64_t size = 0;
  int64_t modified_ns = 0;
};

/// Refuses anything but a regular file, symbolic links, and files that everyone can write.
FileStamp check_library_file(const std::filesystem::path& file);

/// Checks the ELF headers: class, byte order, machine, type, and that section table, sections and segments are within
/// the file. Returns the names of the exported symbols.
std::vector<std::string> exported_symbols(const std::filesystem::path& file);

/// The folders of the file's run path (DT_RUNPATH), with $ORIGIN replaced by the file's folder; without empty ones.
std::vector<std::string> run_path(const std::filesystem::path& file);

/// The exported entry symbols of plugins; their names contain the fingerprint of the toolchain (wmtp/fingerprint.hpp).
/// Refuses a library without one.
std::vector<std::string> entry_symbols(const std::filesystem::path& file);

/// Refuses a file whose entry symbols do not contain `wanted`, naming both fingerprints.
void check_fingerprint(const std::filesystem::path& file, const std::vector<std::string>& entries,
                       const std::string& wanted);

/// "sdk 0.2, headers 3f2a90c1d4e5, torch 2.11.0, gcc 12, C++ ABI 1"; the symbol itself if it has another form.
std::string build_fingerprint_text(const std::string& entry_symbol);

}  // namespace wmtp
