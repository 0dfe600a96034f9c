#include "core/plugins/build_fingerprint.hpp"

#include <algorithm>
#include <regex>

#include "base/error.hpp"

namespace wmtp {
namespace {
constexpr char entry_prefix[] = "wmtp_plugin__";
}

std::string fingerprint_text(const std::string& entry_symbol) {
  static const std::regex form(
      "wmtp_plugin__sdk_(\\d+)_(\\d+)(?:__headers_([0-9a-f]+))?__torch_(\\d+)_(\\d+)_(\\d+)__([a-z]+)_(\\d+)"
      "__abi_(\\d+)");
  std::smatch part;
  if (!std::regex_match(entry_symbol, part, form)) return entry_symbol;
  const std::string headers = part[3].matched ? part.str(3) : "of an earlier version";
  return "sdk " + part.str(1) + "." + part.str(2) + ", headers " + headers + ", torch " + part.str(4) + "." +
         part.str(5) + "." + part.str(6) + ", " + part.str(7) + " " + part.str(8) + ", C++ ABI " + part.str(9);
}

std::vector<std::string> entry_symbols(const std::filesystem::path& file, const std::vector<std::string>& exported) {
  std::vector<std::string> entries;
  for (const std::string& name : exported) {
    if (name.starts_with(entry_prefix)) entries.push_back(name);
  }
  if (entries.empty()) {
    throw Error(ExitStatus::plugin, file.string() + ": a library without a plugin's entry; end its source with " +
                                        "WMTP_PIPELINE(...) or WMTP_ADAPTER(...), and build it with wmtp_add_plugin");
  }
  return entries;
}

void check_fingerprint(const std::filesystem::path& file, const std::vector<std::string>& entries,
                       const std::string& wanted) {
  if (std::find(entries.begin(), entries.end(), wanted) != entries.end()) return;
  throw Error(ExitStatus::plugin, file.string() + ": built for " + fingerprint_text(entries.front()) +
                                      "; this host is " + fingerprint_text(wanted) +
                                      "; build the plugin again with this host's sdk");
}

}  // namespace wmtp
