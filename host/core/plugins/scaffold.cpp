#include "core/plugins/scaffold.hpp"

#include <unistd.h>

#include <cctype>
#include <fstream>
#include <map>

#include "base/error.hpp"
#include "core/plugins/catalog.hpp"
#include "core/plugins/embedded_templates.hpp"
#include "core/plugins/installation.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// "soft_focal" -> "SoftFocal".
std::string class_of(const std::string& name) {
  std::string text;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') text += begins ? char(std::toupper(static_cast<unsigned char>(c))) : c;
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

void write(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  if (!(out << text).flush())
    throw Error(ExitStatus::storage, file.string() + ": cannot be written; choose another folder with -o");
}

}  // namespace

std::vector<fs::path> make_plugin_folder(const std::string& kind, const std::string& name, const fs::path& folder) {
  if (!is_plugin_name(name))
    throw Error(ExitStatus::usage, "'" + name + "' is not a valid plugin name: wanted at most 32 lower case letters, " +
                                       "digits and '_', the first a letter");
  if (fs::exists(folder))
    throw Error(ExitStatus::usage,
                folder.string() + ": already exists; choose another name, or another folder with -o");
  const std::map<std::string, std::string> values{{"@NAME@", name},
                                                  {"@KIND@", kind},
                                                  {"@CLASS@", class_of(name)},
                                                  {"@PREFIX@", library_folder().parent_path().string()}};
  const fs::path unfinished = folder.string() + ".new-" + std::to_string(getpid());
  std::vector<fs::path> files;
  try {
    fs::create_directories(unfinished);
    for (const auto& [path, text] : embedded_templates()) {
      const size_t slash = path.find('/');
      if (const std::string part = path.substr(0, slash); part != kind && part != "both") continue;
      const std::string file = filled(path.substr(slash + 1), {{"NAME", name}});
      write(unfinished / file, filled(text, values));
      files.push_back(folder / file);
    }
    fs::rename(unfinished, folder);
  } catch (const fs::filesystem_error& error) {
    std::error_code gone;
    fs::remove_all(unfinished, gone);
    throw Error(ExitStatus::storage, folder.string() + ": cannot be created: " + error.code().message());
  } catch (...) {
    std::error_code gone;
    fs::remove_all(unfinished, gone);
    throw;
  }
  return files;
}

}  // namespace wmtp
