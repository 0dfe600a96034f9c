// The tool chain's fingerprint in a plugin's entry symbol (sdk: wmtp/fingerprint.hpp), read back for comparison and for
// people. Knows no LibTorch: the engine says which symbol it wants.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// "sdk 0.2, headers 3f2a90c1d4e5, torch 2.11.0, gcc 12, C++ ABI 1", or the symbol itself when it is not of that form.
std::string fingerprint_text(const std::string& entry_symbol);

/// The exported names that are entry symbols, of whatever fingerprint. Error(plugin) when there is none.
std::vector<std::string> entry_symbols(const std::filesystem::path& file, const std::vector<std::string>& exported);

/// Error(plugin) with both fingerprints when `wanted` is not among the file's entry symbols.
void check_fingerprint(const std::filesystem::path& file, const std::vector<std::string>& entries,
                       const std::string& wanted);

}  // namespace wmtp
