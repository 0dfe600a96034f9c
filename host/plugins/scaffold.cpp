#include "plugins/scaffold.hpp"

#include <cctype>
#include <map>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/installation.hpp"
#include "io/durable_file.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// "soft_focal" -> "SoftFocal".
std::string class_of(const std::string& name) {
  std::string text;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') text += begins ? char(std::toupper(uint8_t(c))) : c;
    begins = c == '_';
  }
  return text;
}

std::string filled(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [mark, value] : values)
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size()))
      text.replace(at, mark.size(), value);
  return text;
}

}  // namespace

std::vector<fs::path> make_plugin_folder(PluginKind kind, const std::string& name, const fs::path& folder) {
  if (!is_plugin_name(name))
    throw Error(ExitStatus::usage, "'" + name + "' is not a valid plugin name: wanted at most 32 lower case letters, " +
                                       "digits and '_', the first a letter");
  if (fs::exists(folder))
    throw Error(ExitStatus::usage,
                folder.string() + ": already exists; choose another name, or another folder with -o");
  const std::map<std::string, std::string> values{{"@NAME@", name},
                                                  {"@KIND@", to_string(kind)},
                                                  {"@CLASS@", class_of(name)},
                                                  {"@PREFIX@", library_folder().parent_path().string()}};
  FolderDraft draft(folder);
  std::vector<fs::path> files;
  for (const auto& [path, text] : embedded_templates()) {
    const size_t slash = path.find('/');
    if (const std::string part = path.substr(0, slash); part != to_string(kind) && part != "both") continue;
    const std::string file = filled(path.substr(slash + 1), {{"NAME", name}});
    write_new_file(draft.path() / file, filled(text, values));
    files.push_back(folder / file);
  }
  draft.publish();
  return files;
}

}  // namespace wmtp
