// File format: for each file its path and size, each terminated by a zero byte (which no path contains), then the text.
#include "experiment/load/source_texts.hpp"

#include <fstream>

#include "base/error.hpp"
#include "base/normal_path.hpp"
#include "experiment/toml/toml_source.hpp"

namespace wmtp {
namespace {

std::filesystem::path file_key(const std::filesystem::path& file) { return absolute_path(file); }

}  // namespace

SourceTexts::SourceTexts(const std::filesystem::path& written) {
  if (written.empty()) return;
  std::ifstream in(written, std::ios::binary);
  for (std::string path, size; std::getline(in, path, '\0') && std::getline(in, size, '\0');) {
    std::string& text = texts_[path];
    text.resize(std::stoul(size));
    in.read(text.data(), std::streamsize(text.size()));
  }
  if (texts_.empty() || !in.eof())
    throw Error(ExitStatus::bug, written.string() + ": cannot read the experiment from the launcher");
}

const std::string& SourceTexts::text(const std::filesystem::path& file) {
  const auto key = file_key(file);
  const auto known = texts_.find(key);
  return known != texts_.end() ? known->second : texts_.emplace(key, read_source(file, file.string())).first->second;
}

std::filesystem::path SourceTexts::file() {
  const bool is_written = folder_ != nullptr;
  if (!is_written) folder_ = std::make_unique<ScratchFolder>();
  const auto file = folder_->path() / "experiments";
  if (is_written) return file;
  std::ofstream out(file, std::ios::binary);
  for (const auto& [path, text] : texts_) out << path.string() << '\0' << text.size() << '\0' << text;
  out.close();
  if (!out)
    throw Error(ExitStatus::storage,
                file.string() + ": cannot be written; check the free space of the temporary folder");
  return file;
}

}  // namespace wmtp
